"""Stale synchronous rounds by hand (RELAY: Abdelmoniem et al. 2021, sections 2.2, 4 and 5.1)."""

import math
from typing import Any

import pytest

from fedhpc.budget import Budget
from fedhpc.federation import virtual_server
from fedhpc.federation.schedulers.stale_synchronous import StaleSettings, StaleSynchronous
from fedhpc.federation.updates import ScheduleError
from tests.federation.online import algorithm, online, played, server_of, staleness, who

A, B, C, D, E = range(5)
EXAMPLES = [1, 4, 2, 20, 3]
"""So A takes 4 seconds, B 7, C 5, D 23 and E 6."""
ROUNDS = [[A, B], [C, D], [A, E], [A, C], [A, B], [A, E], [A, C]]
"""Each is over when one of its own has come: round 1 from 0 to 4 (A); B comes at 7. Round 2 from 4 to 9 (C); D comes at
27. Round 3 from 9 to 13 (A); E comes at 15. Round 4 from 13 to 17 (A); C comes at 18. Round 5 from 17 to 21 (A); B
comes at 24. Round 6 from 21 to 25 (A); E comes at 27. Round 7 from 25 to 29 (A)."""
TIMES = [0, 4, 9, 13, 17, 21, 25, 29]
EQUAL = {"weighting": "equal"}


def over_committed(**settings: Any) -> Any:
    return algorithm(cohort=1, over_selection=2, **settings)


def test_late_updates_are_aggregated_with_the_round_in_which_they_come() -> None:
    _, updates, _ = played(over_committed(stale=EQUAL), EXAMPLES, ROUNDS)
    assert [update.time for update in updates] == TIMES
    # The fresh one first. At 27 D comes, five server updates after its download, and E, which is one update late.
    assert [who(update) for update in updates] == [[], [A], [C, B], [A], [A, E], [A, C], [A, B], [A, D, E]]
    assert [staleness(update) for update in updates[2:]] == [[0, 1], [0], [0, 1], [0, 1], [0, 1], [0, 5, 1]]
    assert updates[2].weights == [0.5, 0.5]
    assert [update.boost for update in updates] == [None] * 8
    totals = updates[-1].totals
    assert (totals.client_updates, totals.client_trips, totals.updates_waiting) == (13, 13, 0)
    # A six times, B twice, C twice, D, E twice.
    assert (totals.resource_used, totals.resource_wasted) == (6 * 4 + 2 * 7 + 2 * 5 + 23 + 2 * 6, 0)
    # D's version 1 lives until D is aggregated.
    assert [update.version for update in updates if 1 in update.settled] == [7]


def test_what_would_be_staler_than_the_threshold_is_given_up() -> None:
    # At 25 the server makes version 6, and D, who has version 1, cannot be less than 5 stale any more.
    server, updates, _ = played(over_committed(stale={**EQUAL, "threshold": 4}), EXAMPLES, ROUNDS)
    assert [who(update) for update in updates[6:]] == [[A, B], [A, E]]
    # It goes on to its upload at 27, in vain, and is free then.
    assert [update.totals.resource_wasted for update in updates[6:]] == [0, 23]
    assert updates[7].totals.client_trips == updates[7].totals.client_updates + 1
    assert [update.version for update in updates if 1 in update.settled] == [7]
    assert server.candidates()[D]
    _, updates, _ = played(over_committed(stale={**EQUAL, "threshold": 5}), EXAMPLES, ROUNDS)
    assert who(updates[-1]) == [A, D, E]


def test_without_stale_whoever_is_late_finishes_in_vain() -> None:
    _, updates, _ = played(over_committed(), EXAMPLES, ROUNDS)
    assert [update.time for update in updates] == TIMES
    assert [who(update) for update in updates] == [[], [A], [C], [A], [A], [A], [A], [A]]
    assert [update.weights for update in updates[1:]] == [[1.0]] * 7
    # By 29 B has come at 7 and 24, E at 15 and 27, C at 18, D at 27.
    assert [update.totals.resource_wasted for update in updates] == [0, 0, 7, 7, 13, 18, 25, 54]
    totals = updates[-1].totals
    assert totals.client_trips == 13
    assert totals.resource_used == 6 * 4 + 5 + 54


def test_an_oracle_sees_the_same_and_pays_for_what_is_used_alone() -> None:
    _, seen, _ = played(over_committed(stale={**EQUAL, "threshold": 4}), EXAMPLES, ROUNDS)
    _, foreseen, _ = played(over_committed(stale={**EQUAL, "threshold": 4}, oracle=True), EXAMPLES, ROUNDS)
    for update, same in zip(seen, foreseen, strict=True):
        assert (update.time, who(update), update.weights) == (same.time, who(same), same.weights)
        assert update.totals.client_trips == same.totals.client_trips
        assert same.totals.resource_used == update.totals.resource_used - update.totals.resource_wasted
        assert same.totals.resource_wasted == 0


@pytest.mark.parametrize(
    ("stale", "weights"),
    [
        ({"weighting": "equal"}, [1, 1, 1]),
        ({"weighting": "dynsgd"}, [1, 1 / 6, 1 / 2]),
        ({"weighting": "adasgd"}, [1, math.exp(-6), math.exp(-2)]),
    ],
)
def test_the_rules_of_section_4_2_4(stale: dict[str, Any], weights: list[float]) -> None:
    _, updates, _ = played(over_committed(stale=stale), EXAMPLES, ROUNDS)
    assert staleness(updates[-1]) == [0, 5, 1]
    assert updates[-1].weights == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-15)


@pytest.mark.parametrize(("beta", "found"), [({}, 0.35), ({"beta": 0.5}, 0.5), ({"beta": 0.0}, 0.0)])
def test_equation_2_leaves_its_boost_to_the_model(beta: dict[str, float], found: float) -> None:
    _, updates, _ = played(over_committed(stale={"weighting": "relay", **beta}), EXAMPLES, ROUNDS)
    assert updates[-1].boost == found
    assert updates[-1].weights == pytest.approx([1, (1 - found) / 6, (1 - found) / 2], rel=1e-15)
    # Of fresh ones alone, too: the model divides by the weights' sum.
    assert (updates[1].weights, updates[1].boost) == ([1.0], found)


def test_a_fresh_update_weighs_1_by_every_rule() -> None:
    for weighting in ("equal", "dynsgd", "adasgd", "relay"):
        assert StaleSettings.model_validate({"weighting": weighting}).weight(0) == 1


def test_the_deadline_ends_a_round_with_what_has_come() -> None:
    # Round 1 of all five: A and C by 5; the arrival at 5 comes before the deadline. B at 7 and E at 6 are late, D more.
    settings = algorithm(cohort=5, deadline=5, stale=EQUAL)
    _, updates, _ = played(settings, EXAMPLES, [[A, B, C, D, E], [A, C], [A, B]])
    assert [update.time for update in updates] == [0, 5, 10, 15]
    # Round 2 has both of its own by 10. Round 3: A by 14, so that 15 is the deadline; B comes at 17.
    assert [who(update) for update in updates] == [[], [A, C], [A, C, E, B], [A]]
    assert staleness(updates[2]) == [0, 0, 1, 1]


def test_a_round_is_over_when_all_its_clients_have_come() -> None:
    settings = algorithm(cohort=2, deadline=100, stale=EQUAL)
    _, updates, _ = played(settings, EXAMPLES, [[A, C], [A, C]])
    assert [update.time for update in updates] == [0, 5, 10]


@pytest.mark.parametrize(("ratio", "time", "clients"), [(0.2, 4, 1), (0.21, 5, 2), (0.6, 6, 3), (1.0, 23, 5)])
def test_the_target_ratio_is_of_those_who_were_started(ratio: float, time: float, clients: int) -> None:
    settings = algorithm(cohort=5, target_ratio=ratio, deadline=50, stale=EQUAL)
    _, updates, _ = played(settings, EXAMPLES, [[A, B, C, D, E]])
    assert (updates[1].time, len(updates[1].updates)) == (time, clients)


def test_a_ratio_that_is_no_binary_fraction_is_not_rounded_up() -> None:
    # 0.55 * 100 is a little more than 55 in floating point.
    settings = algorithm(cohort=100, target_ratio=0.55, deadline=50)
    server = server_of(settings, [1] * 55 + [9] * 45, Budget(server_updates=1))
    *_, update = server.server_updates()
    assert (update.time, len(update.updates)) == (4, 55)


def safa(**settings: Any) -> Any:
    return algorithm(selection={"kind": "everybody"}, **{"stale": EQUAL, "target_ratio": 0.5} | settings)


def test_safa_waits_for_a_share_of_all_who_train() -> None:
    # They take 4, 5, 6 and 7 seconds. At 5 two have come; they start again while the others, who have come by 7, are
    # two of the four who train. At 9 and 10 come the first two, at 13 the third; at 14 the fourth and then the first,
    # at the moment at which the round is over: it waits for the next one. That begins with three who train; of those
    # come the second at 15 and, anew, the third at 20.
    server = server_of(safa(), [1, 2, 3, 4], Budget(server_updates=5))
    updates = list(server.server_updates())
    assert [update.time for update in updates] == [0, 5, 7, 10, 14, 20]
    assert [who(update) for update in updates] == [[], [0, 1], [2, 3], [0, 1], [2, 3], [2, 0, 1]]
    assert [staleness(update) for update in updates[1:]] == [[0, 0], [1, 1], [1, 1], [1, 1], [0, 1, 1]]
    assert updates[5].totals.resource_wasted == 0


def test_safas_bound_wastes_what_comes_too_late() -> None:
    # One takes 4 seconds, the other 23, and a round waits for one of them. From version 2 on the other would be 2
    # stale, and it trains in vain until 23. There are rounds of the first alone meanwhile.
    server = server_of(safa(stale={**EQUAL, "threshold": 1}), [1, 20], Budget(server_updates=7))
    updates = list(server.server_updates())
    assert [who(update) for update in updates] == [[], [0], [0], [0], [0], [0], [0], [0]]
    assert [update.time for update in updates] == [0, 4, 8, 12, 16, 20, 24, 28]
    assert updates[5].totals.resource_wasted == 0
    assert updates[6].totals.resource_wasted == 23
    assert [update.version for update in updates if 0 in update.settled] == [3]


def test_safas_deadline_ends_a_round_before_its_target() -> None:
    server = server_of(safa(target_ratio=1.0, deadline=10), [1, 20], Budget(server_updates=3))
    updates = list(server.server_updates())
    # From 0 to 10; from 10 to 20, which the first has spent waiting since 14; from 20 to 24, when both have come.
    assert [(update.time, who(update)) for update in updates[1:]] == [(10, [0]), (20, [0]), (24, [0, 1])]
    assert staleness(updates[3]) == [0, 2]


def test_adaptive_targets() -> None:
    settings = algorithm(cohort=3, over_selection=4, stale=EQUAL, adaptive_target=True)
    rounds = [[A, B, C, E], [A, C, D], [A, B, C, E], [A, C, E]]
    _, updates, selector = played(settings, EXAMPLES, rounds)
    # Round 1: A at 4, C at 5, E at 6 end it; B has 1 second left, less than mu = 6: N_t = 2, and 2 * 4/3 are 3 clients.
    # Round 2, from 6: A at 10, C at 11; D has 18 left. mu = 0.75 * 5 + 0.25 * 6 = 5.25; N_t is 3 again.
    # Round 3, from 11: A 15, C 16, E 17; B has 1 left, D 12. mu = 0.75 * 6 + 0.25 * 5.25 = 5.8125.
    assert [update.time for update in updates[:4]] == [0, 6, 11, 17]
    assert [who(update) for update in updates[1:4]] == [[A, C, E], [A, C, B], [A, C, E]]
    assert [asked.count for asked in selector.asked] == [4, 3, 4, 3]
    assert [asked.mu for asked in selector.asked] == [0, 6, 5.25, 5.8125]
    # Round 4, from 17, waits for two: over at 22 with B, who came at 18.
    assert (updates[4].time, who(updates[4])) == (22, [A, C, B])
    assert [asked.round for asked in selector.asked] == [1, 2, 3, 4]


def test_the_adaptive_target_is_1_at_least() -> None:
    settings = over_committed(stale=EQUAL, adaptive_target=True)
    _, updates, selector = played(settings, EXAMPLES, [[A, C], [E, B], [A, C]])
    # At 4 C has 1 second left: N_t = max(1, 1 - 1).
    assert [asked.count for asked in selector.asked] == [2, 2, 2]
    assert [update.time for update in updates] == [0, 4, 10, 14]


def test_a_deadline_is_what_is_known_of_the_first_rounds_duration() -> None:
    _, _, selector = played(algorithm(cohort=2, deadline=10), EXAMPLES, [[A, C], [A, C], [A, C]])
    # Rounds take 5 seconds: 0.75 * 5 + 0.25 * 10 = 6.25, and 0.75 * 5 + 0.25 * 6.25.
    assert [asked.mu for asked in selector.asked] == [10, 6.25, 5.3125]


# Clients who come and go.


def test_who_goes_offline_before_its_upload_drops_out() -> None:
    # B would come at 7 and goes at 6.5; C takes 5 seconds and goes at that very moment, having uploaded.
    settings = algorithm(cohort=3)
    forever = (0, 1e6)
    there = online([forever], [(0, 6.5), (20, 30)], [(0, 5), (6, 100)])
    server, updates, _ = played(settings, EXAMPLES[:3], [[A, B, C], [A, C]], there)
    # The round waits for nobody else when B is gone.
    assert (updates[1].time, who(updates[1])) == (6.5, [A, C])
    assert updates[1].weights == [0.5, 0.5]
    totals = updates[1].totals
    assert (totals.resource_used, totals.resource_wasted) == (4 + 5 + 6.5, 6.5)
    assert (totals.client_trips, totals.client_updates) == (2, 2)
    assert 0 in updates[1].settled
    assert server.candidates().tolist() == [True, False, True]


def test_a_late_client_drops_out_too_whether_given_up_or_not() -> None:
    for stale in (EQUAL, None):
        there = online([(0, 1e6)], [(0, 6.5)], [(0, 1e6)])
        _, updates, _ = played(over_committed(stale=stale), EXAMPLES[:3], [[A, B], [A, C]], there)
        assert [(update.time, who(update)) for update in updates[1:]] == [(4, [A]), (8, [A])]
        assert updates[2].totals.resource_wasted == 6.5
        assert updates[2].totals.resource_used == 4 + 4 + 6.5


def test_the_server_waits_for_the_next_who_comes_online() -> None:
    there = online([(10, 13), (20, 30)], [(40, 50)])
    server = server_of(algorithm(cohort=2), EXAMPLES[:2], Budget(server_updates=2), there)
    updates = list(server.server_updates())
    # A comes at 10 and drops out at 13, comes again at 20 and uploads at 24; from 24 to 28 once more.
    assert [(update.time, who(update)) for update in updates[1:]] == [(24, [A]), (28, [A])]
    assert updates[1].totals.resource_wasted == 3
    assert isinstance(server.scheduler, StaleSynchronous)
    assert server.scheduler.round == 3


def test_a_round_that_fell_short_says_nothing_of_how_long_rounds_take() -> None:
    settings = algorithm(cohort=2, selection={"kind": "uniform"})
    _, updates, selector = played(settings, EXAMPLES[:2], [[A, B], [A, B], [A]], online([(0, 1e6)], [(0, 12)]))
    # The first takes 7 seconds; in the second, from 7, A comes at 11 and B drops out at 12.
    assert [update.time for update in updates] == [0, 7, 12, 16]
    assert [asked.mu for asked in selector.asked] == [0, 7, 7]


def test_a_round_without_an_update_makes_no_server_update_and_the_next_one_tries_again() -> None:
    settings = algorithm(cohort=1, deadline=5)
    server, updates, selector = played(settings, EXAMPLES, [[D], [B], [A]], server_updates=1)
    # D and B do not come within 5 seconds and are given up.
    assert [(update.time, who(update)) for update in updates[1:]] == [(14, [A])]
    assert server.totals.resource_wasted == 7
    assert [asked.round for asked in selector.asked] == [1, 2, 3]


def test_who_is_late_of_a_round_that_came_to_nothing_is_not_stale() -> None:
    settings = algorithm(cohort=1, deadline=5, stale=EQUAL)
    _, updates, _ = played(settings, EXAMPLES, [[B], [A]], server_updates=1)
    # B downloads version 0 at 0, and A does at 5. B comes at 7 and does not end A's round.
    assert [(update.time, who(update), staleness(update)) for update in updates[1:]] == [(9, [B, A], [0, 0])]


def test_where_all_are_busy_their_updates_are_used_as_they_come() -> None:
    # A round of 3 seconds, of which nothing comes: there is nobody left to start, and A's update frees A.
    server = server_of(algorithm(cohort=1, deadline=3, stale=EQUAL), [1], Budget(server_updates=2))
    updates = list(server.server_updates())
    assert [(update.time, who(update), staleness(update)) for update in updates[1:]] == [(4, [0], [0]), (8, [0], [0])]


def test_updates_that_have_come_do_not_wait_for_somebody_to_come_online() -> None:
    # A and B have come by 7, when a round of 3 seconds is long over; C comes online in the far future only.
    there = online([(0, 1e6)], [(0, 1e6)], [(5e5, 6e5)])
    server = server_of(algorithm(cohort=2, deadline=3, stale=EQUAL), EXAMPLES[:3], Budget(server_updates=2), there)
    updates = list(server.server_updates())
    assert [(update.time, who(update)) for update in updates[1:]] == [(7, [A, B]), (14, [A, B])]


def test_whoever_was_given_up_is_waited_for_where_there_is_nobody_else() -> None:
    # Rounds of 6 seconds. The first, of both, is over at 6 without an update. They come in vain at 7 and 8; the second,
    # of the first client, is from 7 to 13, and the third, of the other, from 13 to 19. The first comes at 14 in vain.
    server = server_of(algorithm(cohort=2, deadline=6), [4, 5], Budget(virtual_seconds=20))
    assert [update.version for update in server.server_updates()] == [0]
    assert server.totals.client_trips == 3
    assert server.totals.resource_wasted == server.totals.resource_used == 7 + 8 + 7


def test_dropouts_without_end_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_server, "_STARTS_WITHOUT_ARRIVAL", 100)
    there = online(*([(second, second + 1.0) for second in range(0, 1000, 2)] for _ in range(30)))
    server = server_of(algorithm(cohort=30), [1] * 30, Budget(server_updates=1), there)
    with pytest.raises(
        ScheduleError, match=r"clients in a row were started and none has uploaded an update of use before"
    ):
        list(server.server_updates())


@pytest.mark.parametrize("budget", [{"server_updates": 1}, {"client_trips": 100}])
@pytest.mark.parametrize("rounds", [{"cohort": 2}, {"selection": {"kind": "everybody"}, "target_ratio": 1}])
def test_rounds_that_are_too_short_for_everybody_are_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, rounds: dict[str, Any], budget: dict[str, int]
) -> None:
    # All take 4 seconds and come in vain, again and again.
    monkeypatch.setattr(virtual_server, "_ROUNDS_WITHOUT_ARRIVAL", 50)
    server = server_of(algorithm(**rounds, deadline=2), [1] * 6, Budget.model_validate(budget))
    with pytest.raises(ScheduleError, match=r"^50 deadlines passed in a row without an arrival of use, of one of"):
        list(server.server_updates())


def test_who_holds_nothing_is_not_waited_for() -> None:
    # The one who holds an example never comes online, the others do in turn.
    there = online([], [(0, 10)], [(20, 30)])
    server = server_of(
        algorithm(cohort=1, selection={"kind": "by_examples"}), [5, 0, 0], Budget(server_updates=1), there
    )
    with pytest.raises(
        ScheduleError, match=r"nobody who may be selected comes online again; give the scenario another"
    ):
        list(server.server_updates())


def test_few_clients_who_always_drop_out_are_told_soon() -> None:
    server = server_of(algorithm(cohort=1), [5] * 2, Budget(server_updates=1), online(*[[(0, 1), (9, 10)]] * 2))
    with pytest.raises(ScheduleError, match=r"^10,20\d clients in a row were started and none has uploaded"):
        list(server.server_updates())


def test_who_has_come_waits_for_all_who_are_under_way_where_there_is_nobody_to_start() -> None:
    # A round of 3 seconds, of which nothing comes. A comes at 4, and B at 5.
    server = server_of(algorithm(cohort=2, deadline=3, stale=EQUAL), [1, 2], Budget(server_updates=1))
    assert [(update.time, who(update)) for update in server.server_updates()] == [(0, []), (5, [A, B])]
    assert isinstance(server.scheduler, StaleSynchronous)
    assert server.scheduler.mu == 3  # no round ended at 5


def test_a_straggler_who_will_be_there_just_within_mu_counts() -> None:
    # Round 1 is over at 4 with A; mu is 4, and B comes at 8: in 4 seconds, so that one of two is waited for.
    settings = algorithm(cohort=2, over_selection=4, target_ratio=0.25, stale=EQUAL, adaptive_target=True)
    _, updates, selector = played(settings, [1, 5, 9, 9, 1, 1], [[A, B, C, D], [A, E]])
    assert [update.time for update in updates] == [0, 4, 8]
    assert [(asked.mu, asked.count) for asked in selector.asked] == [(0, 4), (4, 2)]


def test_to_wait_is_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_server, "_ROUNDS_WITHOUT_ARRIVAL", 3)
    # It comes nine times for a second, before it stays for the four that it takes.
    there = online([*((second, second + 1.0) for second in range(0, 90, 10)), (90, 95)])
    server = server_of(algorithm(cohort=1), [1], Budget(server_updates=1), there)
    assert [update.time for update in server.server_updates()] == [0, 94]


def test_whoever_comes_online_waits_for_the_round_to_be_over() -> None:
    # Rounds of 6 seconds, of B alone, who takes 7: from 0, 7 and 14, in vain. At 6 it was A who was waited for, who
    # comes at 18: in the round from 20 on.
    there = online([(18, 90)], [(0, 90)])
    server = server_of(algorithm(cohort=1, deadline=6), [1, 4], Budget(server_updates=1), there)
    assert [(update.time, who(update)) for update in server.server_updates()] == [(0, []), (24, [A])]


def test_the_deadline_of_a_round_that_is_over_says_nothing() -> None:
    # Round 1 is over at 4 with A, and round 2 at 4.5, when A goes offline; its deadline is at 14. C comes at 7 and
    # waits for D, who comes at 23. Meanwhile A is online again, and its round from 20 on is over at 24.
    there = online([(0, 4.5), (20, 90)], [(30, 90)], [(0, 8)], [(0, 90)])
    settings = algorithm(cohort=1, over_selection=3, deadline=10, stale=EQUAL)
    server = server_of(settings, [1, 4, 4, 20], Budget(server_updates=2), there)
    found = [(update.time, who(update)) for update in server.server_updates()]
    assert found == [(0, []), (4, [A]), (24, [A, C, D])]
    # Nor does that of round 1, at 10, end round 2, which is from 4 to 11.
    _, updates, _ = played(algorithm(cohort=1, deadline=10), EXAMPLES, [[A], [B]])
    assert [(update.time, who(update)) for update in updates] == [(0, []), (4, [A]), (11, [B])]


def test_clients_who_never_come_online_are_refused_in_words() -> None:
    server = server_of(algorithm(cohort=1), [1, 1], Budget(server_updates=1), online([], []))
    with pytest.raises(ScheduleError, match="nobody who may be selected comes online again"):
        list(server.server_updates())
