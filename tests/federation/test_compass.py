"""Compass beyond the paper's figures, by hand: clients of one second a step and so on, Q from 2 to 10, lambda 1.2.

A client that is alone takes 2 steps first, and then 10 in a group of its own.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpc.budget import Budget, Evaluation
from fedhpc.experiment import load_experiment
from fedhpc.federation.population import Population
from fedhpc.federation.recorder import Recorder
from fedhpc.federation.schedulers.compass import Arrived, CompassSettings
from fedhpc.federation.updates import ScheduleError, ServerUpdate
from fedhpc.mistakes import ExperimentError
from tests.silos import CLIENT, SGD_1, Speed, WatchedCompass, compass


def told(updates: Sequence[ServerUpdate]) -> list[tuple[float, list[tuple[int, int]]]]:
    """Of every server update its time and the (client, participation) of its updates."""
    return [
        (round(update.time, 6), [(one.client, one.participation) for one in update.updates])
        for update in updates
        if update.version
    ]


def by_participation(*speeds: Sequence[float]) -> Speed:
    """The speeds of client 0's participations, of client 1's, ...; the last one lasts."""
    return lambda client, participation: speeds[client][min(participation, len(speeds[client]) - 1)]


def test_who_completes_a_group_early_does_not_join_it_again() -> None:
    # 2: ten steps, T_a = 12. At 0.8 a step they end at 10, when (12 - 10) / 0.8 = 2.5 steps would fit once more.
    server, scheduler = compass(by_participation([1, 0.8]), Budget(virtual_seconds=17.9), 1)
    assert told(list(server.server_updates())) == [(2.0, [(0, 0)]), (10.0, [(0, 1)])]
    assert scheduler.assigned == [(2.0, 0, 10, 1), (10.0, 0, 10, 2)]


@pytest.mark.parametrize(
    ("slower", "made"),
    [
        # Group 1 of both: T_a = 2 + 10, T_max = 2 + 1.5 * 10 = 17. Ten steps of 1.5 end at T_max and are on time.
        (1.5, [(17.0, [(0, 1), (1, 1)])]),
        # A little later, the timer was first; the late one waits for the next server update: at 17 client 0 got
        # another ten steps, and at 17.01 client 1 (27 - 17.01) / 1.501 = 6.7 to be there with it. It needs 6 * 1.501.
        (1.501, [(17.0, [(0, 1)]), (27.0, [(1, 1), (1, 2), (0, 2)])]),
    ],
)
def test_on_time_is_until_the_latest_time_itself(slower: float, made: list[Any]) -> None:
    speed = by_participation([1], [1, slower])
    server, _ = compass(speed, Budget(virtual_seconds=28), 2, latest_time_factor=1.5)
    assert told(list(server.server_updates()))[2 : 2 + len(made)] == made


def one_client_that_becomes_slower() -> tuple[list[ServerUpdate], WatchedCompass]:
    """Q is 1 and lambda 1, so that a step must take as long as the one before it."""
    speed = by_participation([1, 2, 3, 3])
    budget = Budget(virtual_seconds=9.5)
    server, scheduler = compass(speed, budget, 1, min_steps=1, max_steps=1, latest_time_factor=1)
    return list(server.server_updates()), scheduler


def test_a_client_late_twice_loses_no_update() -> None:
    # 1: group 1 until 2, the step ends at 3. 3: late; group 2 until 5, the step ends at 6. 5: group 2's timer finds
    # nobody, but the late update. 6: late again; group 3 until 9, the step ends at 9 and the second late one is there.
    updates, _ = one_client_that_becomes_slower()
    assert told(updates) == [(1.0, [(0, 0)]), (5.0, [(0, 1)]), (9.0, [(0, 2), (0, 3)])]
    assert updates[-1].totals.client_updates == updates[-1].totals.client_trips == 4
    assert updates[-1].totals.updates_waiting == 0


def test_a_timer_with_nothing_to_aggregate_makes_no_server_update() -> None:
    # As above: group 1's timer at 2 found neither an arrival nor a late update; group 2's at 5 did.
    updates, scheduler = one_client_that_becomes_slower()
    assert [round(update.time, 6) for update in updates] == [0.0, 1.0, 5.0, 9.0]
    assert [(second, group) for second, _, _, group in scheduler.assigned] == [(1, 1), (3, 2), (6, 3), (9, 4)]


def test_the_timer_of_a_group_that_is_over_does_nothing() -> None:
    # Groups end at 12, 22 and 32; their timers run out at 14, 24 and 34.
    server, scheduler = compass([1], Budget(virtual_seconds=35))
    assert [time for time, _ in told(list(server.server_updates()))] == [2.0, 12.0, 22.0, 32.0]
    scheduler.timer(server, 1)
    scheduler.timer(server, 2)
    assert server.version == 4


def test_a_late_update_ends_in_the_next_server_update_and_its_client_begins_at_once() -> None:
    # Client 1 slows down to 2 seconds a step: its ten steps from 2 on end at 22; the group's timer was at 14.
    # 14: client 0 gets ten steps until 24. 22: (24 - 22) / 2 = 1 is below 2; client 0 could be back at 24 + 10 = 34:
    # (34 - 22) / 2 = 6 steps. 24: client 0 alone, and the late update; (34 - 24) / 1 = 10 steps. 34: both.
    server, scheduler = compass(by_participation([1], [1, 2]), Budget(virtual_seconds=34.5), 2)
    assert told(list(server.server_updates()))[2:] == [
        (14.0, [(0, 1)]),
        (24.0, [(1, 1), (0, 2)]),
        (34.0, [(1, 2), (0, 3)]),  # at the same second, who began first is first
    ]
    assert scheduler.assigned[2:5] == [(14.0, 0, 10, 2), (22.0, 1, 6, 3), (24.0, 0, 10, 3)]


def a_wait() -> ServerUpdate:
    """Clients 0 and 1 are one group, expected at 12. Client 0 arrives at 2 + 10 * 0.5 = 7, client 1 at 12, and in
    between, at 9, client 2 for the first time. The group's server update is the fourth."""
    server, _ = compass(
        by_participation([1, 0.5], [1], [4.5]),
        Budget(server_updates=4),
        3,
        mixing=0.6,
        staleness={"kind": "polynomial", "exponent": 1.0},
    )
    *_, last = server.server_updates()
    assert (last.time, [one.client for one in last.updates]) == (12.0, [0, 1])
    return last


def test_an_update_is_as_stale_as_when_it_was_uploaded() -> None:
    # Client 0 started from version 1, client 1 from 2. At 7 the newest was 2, at 12 it is 3: tau is 1 for both, though
    # client 0's update waited while version 3 came to be. st = 1/2, p = 1/3.
    last = a_wait()
    assert last.weights == pytest.approx([0.6 / 2 / 3, 0.6 / 2 / 3])
    recorder = Recorder(Evaluation(every=100))
    recorder.observe(last)
    assert recorder.server_updates()["staleness"].tolist() == [1.0]
    assert recorder.server_updates()["staleness_max"].tolist() == [1]


def test_p_is_a_clients_share_in_all_examples() -> None:
    server, _ = compass([1, 1.5, 2], Budget(server_updates=3), [1, 3, 4], weighting="examples", mixing=0.5)
    assert [update.weights for update in server.server_updates()][1:] == [[0.5 / 8], [0.5 * 3 / 8], [0.5 * 4 / 8]]


def test_normalisation_by_steps() -> None:
    # Speeds 1 and 2 a step: 2 and 4 seconds for the first two steps. Group 1 from 2 to 12: ten steps and (12 - 4) / 2 =
    # 4. With a = (0.5, 0.5): their mean is 7 steps, so that the weights are 0.5 * 7 / 10 and 0.5 * 7 / 4.
    for normalization, expected in (("sum", [0.5, 0.5]), ("steps", [0.35, 0.875])):
        server, _ = compass([1, 2], Budget(server_updates=3), normalization=normalization)
        *_, last = server.server_updates()
        assert sorted(one.steps for one in last.updates) == [4, 10]
        of_steps = {one.steps: weight for one, weight in zip(last.updates, last.weights, strict=True)}
        assert [of_steps[10], of_steps[4]] == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.integers(1, 200)), min_size=1, max_size=6),
    st.floats(0.05, 1),
    st.lists(st.floats(-3, 3), min_size=6, max_size=6),
)
def test_normalisation_is_fednovas_for_weights_that_sum_to_1_and_the_sum_for_equal_steps(
    clients: list[tuple[float, int]], mixing: float, deltas: list[float]
) -> None:
    made = {"client": CLIENT, "server_optimizer": SGD_1, "min_steps": 1, "max_steps": 200, "mixing": mixing}
    scheduler = WatchedCompass(CompassSettings(scheduler="compass", normalization="steps", **made))
    server, _ = compass([1] * len(clients), Budget(server_updates=1))
    server.scheduler = scheduler
    scheduler.begin(server)
    total = sum(weight for weight, _ in clients)

    def step(shares: list[float], steps: list[int]) -> float:
        came = []
        for place, (share, each) in enumerate(zip(shares, steps, strict=True)):
            server.under_way[place].steps = each
            came.append(Arrived(place, server.under_way[place], share))
        return sum(weight * delta for weight, delta in zip(scheduler.weights(came), deltas, strict=False))

    shares, steps = [weight / total for weight, _ in clients], [each for _, each in clients]
    # Wang et al. 2020, equation 9: tau_eff sum p_i d_i with d_i = delta_i / tau_i and tau_eff = sum p_i tau_i.
    nova = sum(p * tau for p, tau in zip(shares, steps, strict=True)) * sum(
        p * delta / tau for p, delta, tau in zip(shares, deltas, steps, strict=False)
    )
    assert step(shares, steps) == pytest.approx(nova)
    # Half of everything makes half a step.
    assert step([p / 2 for p in shares], steps) == pytest.approx(nova / 2)
    plain = sum(p * delta for p, delta in zip(shares, deltas, strict=False))
    assert step(shares, [7] * len(shares)) == pytest.approx(plain)


def until(made: int, speed: Speed | Sequence[float], clients: int, **others: Any) -> tuple[Any, WatchedCompass, Any]:
    """The server after so many server updates, its scheduler, and what goes on."""
    server, scheduler = compass(speed, Budget(virtual_seconds=1000), clients, **others)
    going_on = server.server_updates()
    for _ in range(made + 1):
        next(going_on)
    return server, scheduler, going_on


def lose(server: Any, scheduler: WatchedCompass, client: int) -> list[tuple[float, list[tuple[int, int]]]]:
    """What the loss of a client makes at once. Its arrival does not come any more."""
    update = server.under_way[client]
    update.stopped = True
    scheduler.lost(server, update)
    return told(server.take_emitted())


def test_a_group_goes_on_without_who_is_lost() -> None:
    # At 2 all three are one group, expected at 12. Client 2 is lost before the others are there.
    server, scheduler, going_on = until(3, [1, 1, 1], 3)
    assert lose(server, scheduler, 2) == []
    assert told([next(going_on), next(going_on)]) == [(12.0, [(0, 1), (1, 1)]), (22.0, [(0, 2), (1, 2)])]
    assert 2 not in {client for second, client, _, _ in scheduler.assigned if second > 2}


def test_a_group_of_which_only_the_lost_one_is_missing_is_aggregated() -> None:
    # Client 1 is back at 2 + 10 * 0.5 = 7; client 2, alone in its tempo, makes a server update at 9 for the first time.
    server, scheduler, going_on = until(3, by_participation([1], [1, 0.5], [4.5]), 3)
    assert server.now == 9.0
    assert lose(server, scheduler, 0) == [(9.0, [(1, 1)])]
    # Client 1 is faster and began again at 9.
    assert server.under_way[1].started == 9.0
    assert told([next(going_on)])[0][0] > 9.0


def test_who_is_lost_in_the_first_round_or_alone_or_late_takes_nothing_along() -> None:
    server, scheduler, going_on = until(1, [1, 3], 2)
    assert lose(server, scheduler, 1) == []  # its first round
    assert told([next(going_on)]) == [(12.0, [(0, 1)])]
    assert lose(server, scheduler, 0) == []  # the only one of its group, with nothing waiting
    assert scheduler.groups == {}
    # As in the test of late updates: at 14 client 1 is late, and is lost before it comes.
    server, scheduler, going_on = until(3, by_participation([1], [1, 2]), 2)
    assert server.now == 14.0
    assert lose(server, scheduler, 1) == []
    assert told([next(going_on)]) == [(24.0, [(0, 2)])]


def test_steps_that_take_no_time_are_refused_in_words() -> None:
    # 10 seconds and 1e-30 more are 10 seconds.
    server, _ = compass(by_participation([5, 1e-30]), Budget(virtual_seconds=100), 1)
    with pytest.raises(ScheduleError, match=r"client 0 took 10 steps in no time at second 10.*longer per_step"):
        list(server.server_updates())


def test_clients_without_examples_are_refused_with_the_mend() -> None:
    made = {"client": CLIENT, "server_optimizer": SGD_1, "min_steps": 1, "max_steps": 2, "mixing": 1.0}
    algorithm = CompassSettings(scheduler="compass", **made)
    (mistake,) = algorithm.mistakes(Population(np.array([3, 0, 1, 0]), np.zeros(4, bool)), Budget(server_updates=1))
    assert mistake.startswith("scheduler: compass starts all clients and counts on their seconds a step, and 2 of 4")
    assert "a partition without empty clients" in mistake
    assert algorithm.mistakes(Population(np.array([3, 1]), np.zeros(2, bool)), Budget(server_updates=1)) == []


GOOD = {"scheduler": "compass", "min_steps": 2, "max_steps": 10, "mixing": 0.9}


@pytest.mark.parametrize(
    ("algorithm", "sentence"),
    [
        ({**GOOD, "min_steps": 11}, "algorithms.mine.max_steps: 10 is below min_steps 11; raise it or lower min_steps"),
        ({**GOOD, "latest_time_factor": 0.9}, "algorithms.mine.latest_time_factor: 0.9 is not allowed"),
        (
            {**GOOD, "client": {"time_limit": {"seconds": 3}}},
            "algorithms.mine.client.time_limit: goes with no scheduler that counts on seconds a step; leave it out",
        ),
        ({**GOOD, "privacy": {"mechanism": "dp_ftrl", "epsilon": 1, "delta": 1e-5}}, None),
        (GOOD, None),
        ({**GOOD, "client": {"steps": 3}, "normalization": "steps"}, None),
    ],
)
def test_what_is_refused_in_a_file(tiny: Callable[..., Path], algorithm: dict[str, Any], sentence: str | None) -> None:
    file = tiny(lambda settings: settings["algorithms"].update(mine=algorithm))
    if sentence is None:
        assert load_experiment(file).algorithms["mine"].scheduler == "compass"
        return
    with pytest.raises(ExperimentError) as caught:
        load_experiment(file)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(sentence)


def test_privacy_is_refused_with_the_population() -> None:
    made = {**GOOD, "server_optimizer": SGD_1, "client": CLIENT.model_copy(update={"clip": 1.0})}
    private = {"mechanism": "dp_ftrl", "epsilon": 1, "delta": 1e-5}
    algorithm = CompassSettings.model_validate({**made, "weighting": "uniform", "privacy": private})
    (mistake,) = algorithm.mistakes(Population(np.ones(2, np.int64), np.zeros(2, bool)), Budget(server_updates=1))
    assert mistake.startswith("scheduler: compass is not known to use every client update in one weighted sum only")


def test_a_scenario_in_which_work_takes_no_time_is_refused(tiny: Callable[..., Path]) -> None:
    def change(content: dict[str, Any]) -> None:
        content["algorithms"]["mine"] = GOOD
        content["scenarios"]["still"] = {"communication": {"distribution": "constant", "value": 3}}

    with pytest.raises(ExperimentError) as caught:
        load_experiment(tiny(change))
    (mistake,) = caught.value.mistakes
    assert mistake == (
        "scenarios.still: no time passes with the work of all clients, so that mine would count on seconds a step that "
        "say nothing; give the scenario a per_example or per_step above 0"
    )


# Properties.

SPEEDS = st.lists(st.floats(0.01, 100), min_size=1, max_size=8)
STEPS = st.tuples(st.integers(1, 30), st.floats(1, 12)).map(lambda pair: (pair[0], int(pair[0] * pair[1])))


@given(SPEEDS, STEPS, st.sampled_from([1.0, 1.2, 2.0]), st.floats(0, 1.5), st.integers(0, 10**6))
@settings(deadline=None)
def test_no_update_is_lost_or_counted_twice_whatever_speeds_do(
    speeds: list[float], steps: tuple[int, int], factor: float, noise: float, seed: int
) -> None:
    def speed(client: int, participation: int) -> float:
        # Some noise in every round, and a speed ten times as low in one of ten.
        chance = np.random.default_rng([seed, client, participation])
        return float(speeds[client] * math.exp(noise * chance.normal()) * (10 if chance.random() < 0.1 else 1))

    least, most = steps
    server, scheduler = compass(
        speed,
        Budget(client_trips=150),
        len(speeds),
        min_steps=least,
        max_steps=most,
        latest_time_factor=factor,
        staleness={"kind": "polynomial"},
    )
    seen = set()
    for update in server.server_updates():
        for one, weight in zip(update.updates, update.weights, strict=True):
            assert one.number not in seen
            assert least <= one.steps <= most
            assert one.arrives <= update.time
            assert 0 < weight <= 1 / len(speeds)
            seen.add(one.number)
        waiting = {one.update for one in scheduler.general}
        under_way = {one for one in server.under_way.values() if one.number not in seen and one not in waiting}
        in_groups = {one.update for group in scheduler.groups.values() for one in group.arrived}
        totals = server.totals
        assert totals.client_trips == len(seen) + totals.updates_waiting
        assert totals.updates_waiting == len(waiting) + len(in_groups)
        # Every client has one participation that is not over, in training or in the buffer of its group.
        assert {one.client for one in under_way} == set(range(len(speeds)))
        for group in scheduler.groups.values():
            assert group.awaited
            assert server.now <= group.latest
    assert server.totals.client_trips >= 150


@given(SPEEDS, STEPS)
@settings(deadline=None)
def test_no_client_of_a_steady_speed_is_late_by_a_rounding(speeds: list[float], steps: tuple[int, int]) -> None:
    least, most = steps
    budget = Budget(client_trips=150)
    server, scheduler = compass(speeds, budget, min_steps=least, max_steps=most, latest_time_factor=1)
    for _ in server.server_updates():
        assert not scheduler.general


ROUNDS = 15


@given(SPEEDS, STEPS.filter(lambda steps: steps[1] > steps[0]))
@settings(deadline=None, max_examples=60)
def test_groups_at_equilibrium(speeds: list[float], steps: tuple[int, int]) -> None:
    """Appendix B: with Q = Q_max / Q_min and mu the slowest client's time a step over the fastest's, max(1, ceil(log_Q
    mu)) groups at most. Equilibrium is taken after ``ROUNDS`` times Q_max steps of the slowest client, and watched for
    as long again.

    Where mu <= Q there is one group, at every server update. With more, Algorithm 2 need not settle: for a fast group
    to join it in the next round (line 23), a slow client's new group is made short, and who is slower still then gets
    one of its own. The bound is come down to again and again, but not kept.
    """
    least, most = steps
    speeds = [max(speed, max(speeds) / 40) for speed in speeds]
    ratio, spread = most / least, max(speeds) / min(speeds)
    bound = next(count for count in range(1, 1000) if ratio**count >= spread * (1 - 1e-12))
    round_ = most * max(speeds)
    server, scheduler = compass(speeds, Budget(virtual_seconds=2 * ROUNDS * round_), min_steps=least, max_steps=most)
    counts = [len(scheduler.groups) for update in server.server_updates() if update.time >= ROUNDS * round_]
    assert min(counts) <= bound
    if bound == 1:
        assert set(counts) == {1}


def test_groups_where_all_clients_take_the_same_steps_are_of_clients_in_step() -> None:
    # Q = 1: seconds a round 10, 10 and 15; who arrives together is a group, and nobody waits for another.
    server, scheduler = compass([1, 1, 1.5], Budget(virtual_seconds=500), min_steps=10, max_steps=10)
    for update in server.server_updates():
        assert all(one.arrives == update.time for one in update.updates)
        assert len(scheduler.groups) <= 3
    assert server.totals.client_trips == 50 + 50 + 33
