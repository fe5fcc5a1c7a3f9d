"""Oort (Lai et al. 2021, Algorithm 1): worked numbers."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from fedhpc.budget import Budget
from fedhpc.federation.schedulers.stale_synchronous import StaleSynchronous
from fedhpc.federation.selectors.oort import Oort, OortSettings, first_of
from fedhpc.federation.selectors.selector import Wanted
from fedhpc.federation.synthetic_losses import SyntheticLosses
from fedhpc.federation.updates import Participation
from fedhpc.federation.virtual_server import VirtualServer
from tests.federation.online import BATCH, algorithm, server_of


def server(examples: list[int]) -> VirtualServer:
    """Of clients who take 3 seconds and one an example."""
    return server_of(algorithm(cohort=1), examples, Budget(server_updates=1))


def oort(made: VirtualServer, **settings: Any) -> Oort:
    chosen = OortSettings.model_validate({"kind": "oort", **settings})
    selector = Oort(chosen, algorithm(cohort=1).client)
    selector.meet(made)
    return selector


def finished(made: VirtualServer, selector: Oort, losses: dict[int, float], round_then: int) -> None:
    """A round is over, to which these clients came with these mean squared losses."""
    updates = []
    for client, loss in losses.items():
        examples = int(made.population.examples[client])
        steps = -(-examples // BATCH)
        update = Participation(0, client, round_then, 0, examples, 0.0, steps=steps, arrives=3.0 + examples)
        made.losses[client, round_then] = loss
        selector.uploaded(update, round_then)
        updates.append(update)
    selector.closed(updates, round_then)
    selector.learn(made)


def test_statistical_utility_is_examples_times_the_root_of_the_mean_squared_loss() -> None:
    made = server([10, 20, 4])
    selector = oort(made)
    finished(made, selector, {0: 4.0, 1: 2.25}, 1)
    assert selector.utility.tolist() == [20, 30, 0]
    assert selector.explored.tolist() == [True, True, False]
    assert selector.last.tolist() == [1, 1, 0]
    assert list(selector.achieved) == [50]


def test_examples_count_that_were_trained_on() -> None:
    chosen = algorithm(cohort=1)
    client = chosen.client.model_copy(update={"epochs": None, "steps": 3})
    made = server([10, 4])
    selector = Oort(OortSettings(kind="oort"), client)
    selector.meet(made)
    assert selector.trained.tolist() == [6, 4]  # three batches of two
    update = Participation(0, 0, 0, 0, 10, 0.0, steps=3, arrives=13.0)
    made.losses[0, 0] = 4.0
    selector.uploaded(update, 1)
    selector.closed([update], 1)
    selector.learn(made)
    assert selector.utility[0] == 12


def test_the_worth_of_the_explored() -> None:
    # T = 13 s: the second takes 23, and (13/23)^2 is 0.319470699.
    made = server([10, 20, 10, 1])
    selector = oort(made, clip_percent=100, preferred_percent=100)
    selector.preferred = 13.0
    finished(made, selector, {0: 1.0}, 2)  # 10
    finished(made, selector, {1: 4.0}, 5)  # 40
    finished(made, selector, {2: 6.25}, 9)  # 25
    # Scaled from 10..40 to 0..1: 0, 1, 0.5. Since rounds 2, 5 and 9, in round 10, with ln 10 = 2.302585093:
    # sqrt(0.115129255) = 0.339307; sqrt(0.046051702) = 0.214597; sqrt(0.025584279) = 0.159951.
    worth = selector.worth(np.array([0, 1, 2]), 10)
    assert worth == pytest.approx([0.339307, 1.214597 * 0.319470699, 0.659951], abs=1e-6)
    # In the first round nothing is uncertain: ln 1 = 0.
    assert selector.worth(np.array([0, 1, 2]), 1) == pytest.approx([0, 0.319470699, 0.5], abs=1e-9)


def test_utilities_are_clipped_at_their_95th_percentile() -> None:
    # 0, 10, ..., 200: the 95th percentile is 190, which the largest then has too.
    made = server([10] * 21)
    selector = oort(made)
    finished(made, selector, {client: float(client**2) for client in range(21)}, 1)
    worth = selector.worth(np.arange(21), 1) / selector.slowness(np.array([0]))
    assert worth == pytest.approx([client / 19 for client in range(20)] + [1])


def test_equal_utilities_are_worth_their_confidence() -> None:
    made = server([10, 10])
    selector = oort(made, preferred_percent=100)
    finished(made, selector, {0: 1.0}, 1)
    finished(made, selector, {1: 1.0}, 4)
    assert selector.worth(np.array([0, 1]), 5) == pytest.approx([math.sqrt(0.1609438), math.sqrt(0.0402359)], abs=1e-6)


def test_the_preferred_duration_is_a_percentile_of_all_clients_durations() -> None:
    made = server([*range(1, 22)])  # 4 to 24 seconds
    assert oort(made).preferred == 5
    assert oort(made, preferred_percent=30).preferred == 10
    assert oort(made, preferred_percent=100).preferred == math.inf


def test_the_pacer_relaxes_it_where_rounds_come_to_less() -> None:
    made = server([*range(1, 22)])
    selector = oort(made, pacer_rounds=2)
    rounds = [4.0, 4.0, 1.0, 4.0, 4.0, 4.0, 0.25, 0.25]
    preferred = []
    for number, loss in enumerate(rounds, 1):
        finished(made, selector, {9: loss}, number)  # 10 examples: 20, 20, 10, 20, 20, 20, 5, 5
        preferred.append(selector.preferred)
    # After four rounds 40 > 30, after six 30 < 40, after eight 40 > 10.
    assert preferred == [5, 5, 5, 6, 6, 6, 6, 7]
    assert selector.percent == 15


def test_exploration_decays_to_its_least() -> None:
    made = server([1] * 10)
    selector = oort(made)
    shares = []
    for number in range(1, 101):
        shares.append(selector.exploration)
        finished(made, selector, {0: 1.0}, number)
    assert shares[:3] == pytest.approx([0.9, 0.882, 0.86436])
    # 0.9 * 0.98^74 is 0.2018, and one more would be below.
    assert shares[74] == pytest.approx(0.2018, abs=1e-4)
    assert shares[75:] == [0.2] * 25


def test_a_round_explores_and_exploits_in_proportion() -> None:
    made = server([5] * 40)
    selector = oort(made)
    finished(made, selector, dict.fromkeys(range(20), 1.0), 1)
    selector.exploration = 0.3
    chosen = selector.select(made, Wanted(2, 10, 10.0)).tolist()
    assert len(set(chosen)) == 10
    assert sum(client >= 20 for client in chosen) == 3
    assert sum(client >= 20 for client in selector.select(made, Wanted(2, 30, 10.0)).tolist()) == 10  # 20 are explored
    assert sorted(selector.select(made, Wanted(2, 50, 10.0)).tolist()) == [*range(40)]
    made.take(np.arange(20, 39))
    assert sum(client >= 20 for client in selector.select(made, Wanted(2, 10, 10.0)).tolist()) == 1  # one is left


def test_a_part_of_a_client_is_not_explored() -> None:
    made = server([5] * 40)
    selector = oort(made)
    finished(made, selector, dict.fromkeys(range(20), 1.0), 1)
    selector.exploration = 0.29
    assert sum(client >= 20 for client in selector.select(made, Wanted(2, 10, 10.0)).tolist()) == 2


def test_a_duration_is_the_last_that_was_seen() -> None:
    # T = 13 s. The first client was expected to take 13 s and took 26: a quarter of its worth is left.
    made = server([10, 10])
    selector = oort(made, clip_percent=100, preferred_percent=100, confidence=0)
    selector.preferred = 13.0
    for client, arrives in ((0, 126.0), (1, 113.0)):
        update = Participation(0, client, 0, 0, 10, 100.0, steps=5, arrives=arrives)
        made.losses[client, 0] = 1.0 + 3.0 * (client == 0)
        selector.uploaded(update, 1)
        selector.closed([update], 1)
    selector.learn(made)
    assert selector.durations.tolist() == [26, 13]
    assert selector.worth(np.arange(2), 1).tolist() == [0.25, 0]


def test_the_first_round_explores_alone() -> None:
    made = server([5] * 40)
    assert len(set(oort(made).select(made, Wanted(1, 10, 0.0)).tolist())) == 10


def test_the_exploited_are_drawn_by_their_worth_from_those_near_the_cut_off() -> None:
    # Worth 0, 0.5, 0.96 and 1, one to be drawn: 0.96 is above 0.95 of 1. They come as 0.96 to 1.
    made = server([10] * 4)
    selector = oort(made, clip_percent=100, preferred_percent=100)
    finished(made, selector, {0: 0.0, 1: 0.25, 2: 0.9216, 3: 1.0}, 1)
    found = Counter(int(selector.exploit(made, np.arange(4), 1, 1)[0]) for _ in range(4000))
    assert set(found) == {2, 3}
    assert abs(found[2] - 4000 * 0.96 / 1.96) < 5 * math.sqrt(1000)
    # Of two, the second's 0.96 is the cut-off.
    assert set(selector.exploit(made, np.arange(4), 2, 1).tolist()) == {2, 3}


def test_the_large_and_fast_are_explored_first() -> None:
    # T = 13 s. Of 10 examples: 10. Of 5: 5. Of 20, 23 s: 20 * 0.319 = 6.39. Of 60, 63 s: 60 * 0.0426 = 2.55.
    made = server([10, 5, 20, 60])
    selector = oort(made)
    selector.percent = 100 / 3
    selector.prefer(made)
    assert selector.preferred == pytest.approx(13)
    assert selector.ranking.tolist() == [0, 2, 1, 3]
    found = Counter(int(client) for _ in range(500) for client in selector.explore(made, np.ones(4, bool), 1))
    assert set(found) == {0, 1, 2, 3}  # from a window of five
    selector.settings = selector.settings.model_copy(update={"exploration_window": 2.0})
    found = Counter(int(client) for _ in range(3000) for client in selector.explore(made, np.ones(4, bool), 1))
    assert set(found) == {0, 2}
    assert abs(found[0] - 3000 * 10 / 16.389414) < 5 * math.sqrt(3000 / 4)


def test_equals_are_explored_in_any_order() -> None:
    made = server([10] * 30)
    selector = oort(made)
    first = set()
    for _ in range(200):
        selector.prefer(made)
        first.add(int(selector.ranking[0]))
    assert len(first) > 25


def test_the_first_of_a_ranking() -> None:
    ranking, chosen = np.array([7, 3, 9, 0, 5, 1, 8, 2, 6, 4]), np.zeros(10, bool)
    chosen[[0, 2, 3, 4]] = True
    assert first_of(ranking, chosen, 1).tolist() == [3]
    assert first_of(ranking, chosen, 3).tolist() == [3, 0, 2]
    assert first_of(ranking, chosen, 9).tolist() == [3, 0, 2, 4]


def test_who_came_too_late_has_a_duration_and_no_loss() -> None:
    # One of 4 and one of 23 seconds, of which the first is waited for; the other comes at 23, in the sixth round.
    settings = algorithm(cohort=1, over_selection=2, selection={"kind": "oort"})
    made = server_of(settings, [1, 20], Budget(virtual_seconds=25))
    asked = SyntheticLosses(0, 0)
    made.losses = asked
    list(made.server_updates())
    assert isinstance(made.scheduler, StaleSynchronous)
    selector = made.scheduler.selector
    assert isinstance(selector, Oort)
    assert selector.explored.tolist() == [True, True]
    assert selector.durations.tolist() == [4, 23]
    assert selector.utility[1] == 0
    assert selector.last[1] == 6
    # The sixth participation of the first client was the last whose loss is known.
    assert selector.utility[0] == pytest.approx(math.sqrt(asked[0, 5]))


def test_losses_are_asked_for_when_the_server_update_was_handed_over() -> None:
    settings = algorithm(cohort=2, over_selection=3, selection={"kind": "oort"})
    assert settings.reads_losses
    made = server_of(settings, [3, 4, 5, 6, 7, 8], Budget(server_updates=20))
    for update in made.server_updates():
        for one in update.updates:
            assert (one.client, one.participation) not in made.losses
            made.losses[one.client, one.participation] = 1.0
    assert len(made.losses) == 40
