"""Least available prioritisation (RELAY, Algorithm 1) by hand, and its rest (section 4.1)."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from fedhpc.budget import Budget
from fedhpc.federation.selectors.priority import Priority, PrioritySettings
from fedhpc.federation.selectors.selector import Wanted
from fedhpc.federation.selectors.smallest import smallest
from fedhpc.federation.virtual_server import VirtualServer
from tests.federation.online import algorithm, online, server_of, who

FOREVER = (0, 1e6)


@dataclass
class Told:
    """A forecast that is given, and what it was asked."""

    probabilities: list[float]
    slots: list[tuple[float, float]] = field(default_factory=list)

    def probability(self, clients: NDArray[np.int64], start: float, end: float) -> NDArray[np.float64]:
        self.slots.append((start, end))
        return np.array(self.probabilities)[clients]


def server(probabilities: list[float]) -> VirtualServer:
    clients = len(probabilities)
    made = server_of(algorithm(cohort=1), [1] * clients, Budget(server_updates=1), online(*[[FOREVER]] * clients))
    made.forecast = Told(probabilities)
    return made


def selector(rest: int = 5) -> Priority:
    return Priority(PrioritySettings(kind="priority", rest=rest))


def test_the_least_available_come_first() -> None:
    made = server([0.9, 0.1, 0.5, 0.3, 0.0])
    chosen = [selector().select(made, Wanted(1, count, 100.0)).tolist() for count in range(7)]
    assert chosen == [[], [4], [4, 1], [4, 1, 3], [4, 1, 3, 2], [4, 1, 3, 2, 0], [4, 1, 3, 2, 0]]


def test_the_slot_is_from_mu_to_two_mu_from_now() -> None:
    made = server([0.5, 0.5])
    made.now = 1000.0
    selector().select(made, Wanted(1, 1, 30.0))
    assert isinstance(made.forecast, Told)
    assert made.forecast.slots == [(1030, 1060)]


def test_ties_are_broken_by_chance() -> None:
    # One of three besides the least available: each a third of 3,000 draws, standard deviation 26.
    made, found = server([0.2, 0.0, 0.2, 0.7, 0.2]), Counter[int]()
    for _ in range(3000):
        first, second = selector().select(made, Wanted(1, 2, 100.0)).tolist()
        assert first == 1
        found[second] += 1
    assert set(found) == {0, 2, 4}
    assert max(abs(times - 1000) for times in found.values()) < 5 * 26


def test_who_is_offline_or_busy_is_no_candidate() -> None:
    there = online([(50, 60)], [FOREVER], [FOREVER])
    made = server_of(algorithm(cohort=1), [1] * 3, Budget(server_updates=1), there)
    made.take(np.array([2]))
    assert selector().select(made, Wanted(1, 3, 10.0)).tolist() == [1]


def test_the_oracle_knows_who_will_go_offline() -> None:
    # In the slot from 10 to 20 the first is online throughout, the second for 4 seconds, the third not at all.
    there = online([FOREVER], [(0, 14)], [(0, 9), (21, 30)])
    made = server_of(algorithm(cohort=1), [1] * 3, Budget(server_updates=1), there)
    assert made.probability(np.arange(3), 10, 20).tolist() == [1, 0.4, 0]
    assert selector().select(made, Wanted(1, 2, 10.0)).tolist() == [2, 1]
    # Afterwards the present is still the present.
    assert made.candidates().all()


def test_who_has_uploaded_rests_for_five_rounds() -> None:
    # One of seven clients a round, those who come first being the least available.
    settings = algorithm(cohort=1, selection={"kind": "priority"})
    made = server_of(settings, [1] * 7, Budget(server_updates=14), online(*[[FOREVER]] * 7))
    made.forecast = Told([client / 10 for client in range(7)])
    clients = [who(update)[0] for update in made.server_updates() if update.version]
    assert clients == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1]


def test_late_updates_are_followed_by_rest_too_whether_used_or_not() -> None:
    for stale in ({"weighting": "equal"}, None):
        settings = algorithm(cohort=1, over_selection=2, selection={"kind": "priority", "rest": 1}, stale=stale)
        # Of 4, 5, 4, 4, 4 and 4 seconds. The second of the first round comes at 5, in the second round.
        made = server_of(settings, [1, 2, 1, 1, 1, 1], Budget(server_updates=3), online(*[[FOREVER]] * 6))
        made.forecast = Told([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
        assert len(list(made.server_updates())) == 4
        # Round 1 was of 0 and 1; round 2 of 2 and 3, 0 resting and 1 busy; round 3 of 0 and 4, the others resting.
        assert [made.participations.get(client, 0) for client in range(6)] == [2, 1, 1, 1, 1, 0]


def test_rest_is_over_where_nobody_else_would_ever_come() -> None:
    settings = algorithm(cohort=1, selection={"kind": "priority", "rest": 5})
    made = server_of(settings, [1, 1], Budget(server_updates=6), online([FOREVER], [FOREVER]))
    assert [update.time for update in made.server_updates()] == [0, 4, 8, 12, 16, 20, 24]


def test_rest_is_not_over_while_somebody_else_will_come() -> None:
    settings = algorithm(cohort=1, selection={"kind": "priority", "rest": 5})
    made = server_of(settings, [1, 1], Budget(server_updates=2), online([FOREVER], [(100, 110)]))
    assert [(update.time, who(update)) for update in made.server_updates()][1:] == [(4, [0]), (104, [1])]


@pytest.mark.parametrize("count", [1, 3, 4])
def test_the_smallest_of_equal_values_are_any(count: int) -> None:
    generator, values = np.random.default_rng(0), np.array([2.0, 1.0, 1.0, 2.0, 1.0, 1.0])
    sets = {frozenset(smallest(values, count, generator).tolist()) for _ in range(500)}
    expected = {1: 4, 3: 4, 4: 1}
    assert len(sets) == expected[count]
    assert all(len(one) == count and one <= {1, 2, 4, 5} for one in sets)


def test_those_who_rest_do_not_wait_for_one_another() -> None:
    # Both come by 5 and rest. C is there and A comes again at 10; as nobody else ever will, C has rested enough.
    there = online([(0, 4.5), (10, 90)], [], [(0, 90)])
    settings = algorithm(cohort=2, selection={"kind": "priority", "rest": 1})
    server = server_of(settings, [1, 1, 2], Budget(server_updates=2), there)
    assert [update.time for update in server.server_updates()] == [0, 5, 10]
