"""FedAT's schedule by hand. Clients take ten steps a round."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.budget import Budget
from fedhpc.experiment import load_experiment
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.tiered import TieredSettings, tiers_of
from fedhpc.federation.updates import ServerUpdate
from fedhpc.mistakes import ExperimentError
from tests.silos import CLIENT, SGD_1, tiered


def told(update: ServerUpdate) -> tuple[float, int, list[int], list[int]]:
    """Time, tier, its clients and the versions that they started from."""
    assert update.tier is not None
    clients = [one.client for one in update.updates]
    return update.time, update.tier.tier, clients, [one.version for one in update.updates]


def test_a_tier_reaches_to_the_ratio_from_its_own_fastest() -> None:
    # 1 to 2, 2.5 to 5; 5.1 begins another though it is near to 5.
    assert tiers_of([5.0, 2.0, 1.0, 5.1, 2.5], 2.0) == [[2, 1], [4, 0], [3]]
    assert tiers_of([3.0, 3.0, 3.0], 1.0) == [[0, 1, 2]]
    assert tiers_of([3.0, 1.0, 2.0], 1.0) == [[1], [2], [0]]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.floats(1, 5))
def test_tiers_are_all_clients_in_order_of_their_speed(seconds: list[float], ratio: float) -> None:
    tiers = tiers_of(seconds, ratio)
    assert sorted(client for tier in tiers for client in tier) == list(range(len(seconds)))
    fastest = [seconds[tier[0]] for tier in tiers]
    assert fastest == sorted(fastest)
    assert all(seconds[client] <= ratio * seconds[tier[0]] for tier in tiers for client in tier)
    assert all(later > ratio * one for one, later in pairwise(fastest))


def test_every_tier_at_its_own_pace() -> None:
    # Tiers {0, 1} of 1 and 1.5 seconds a step and {2} of 4: rounds of 15 and 40 seconds.
    server, _ = tiered([1, 1.5, 4], Budget(virtual_seconds=60), [1, 3, 1], speed_ratio=2.0, weighting="examples")
    updates = [update for update in server.server_updates() if update.version]
    assert [told(update) for update in updates] == [
        (15.0, 0, [0, 1], [0, 0]),
        (30.0, 0, [0, 1], [1, 1]),
        (40.0, 1, [2], [0]),
        (45.0, 0, [0, 1], [2, 2]),
        (60.0, 0, [0, 1], [4, 4]),
    ]
    assert [update.weights for update in updates] == [[0.25, 0.75], [0.25, 0.75], [1.0], [0.25, 0.75], [0.25, 0.75]]
    # T = (T_1, T_2) after each; tier m's share is T_(M + 1 - m) / T.
    assert [update.tier.shares for update in updates if update.tier] == [
        [0, 1],  # (1, 0)
        [0, 1],  # (2, 0)
        [1 / 3, 2 / 3],  # (2, 1)
        [1 / 4, 3 / 4],  # (3, 1)
        [1 / 5, 4 / 5],  # (4, 1)
    ]
    # At 40 client 2's update is two stale; at 45 the fast ones', uploaded at 40 and 45, are 0 and 1.
    assert [[one.staleness for one in update.updates] for update in updates[2:4]] == [[2], [1, 1]]
    totals = updates[-1].totals
    # 0 to 60: two of 15 seconds each in tier 0 that are still out began at 60.
    assert (totals.client_updates, totals.client_trips, totals.updates_waiting) == (9, 9, 0)


def test_one_tier_is_federated_averaging() -> None:
    server, _ = tiered([1, 2, 3], Budget(server_updates=3), speed_ratio=3.0)
    updates = [update for update in server.server_updates() if update.version]
    assert [update.time for update in updates] == [30.0, 60.0, 90.0]
    assert all(update.tier is not None and update.tier.shares == [1.0] for update in updates)


def test_tiers_stay_when_speeds_change() -> None:
    # Client 1 is profiled at 5 seconds a step, and from its second round on takes 1.
    server, scheduler = tiered(
        lambda client, participation: 5.0 if client and not participation else 1.0,
        Budget(virtual_seconds=61),
        2,
        speed_ratio=2.0,
    )
    slow = [told(update)[:3] for update in server.server_updates() if update.tier is not None and update.tier.tier]
    assert slow == [(50.0, 1, [1]), (60.0, 1, [1])]
    assert scheduler.tiers == [[0], [1]]


def started(speeds: list[float], updates: int, ratio: float) -> tuple[Any, Any, Any]:
    server, scheduler = tiered(speeds, Budget(virtual_seconds=200), speed_ratio=ratio)
    going_on = server.server_updates()
    for _ in range(updates + 1):
        next(going_on)
    return server, scheduler, going_on


def lose(server: Any, scheduler: Any, client: int) -> list[ServerUpdate]:
    """What the loss of a client makes at once. Its arrival does not come any more."""
    update = server.under_way[client]
    update.stopped = True
    scheduler.lost(server, update)
    return list(server.take_emitted())


def test_a_tier_goes_on_without_who_is_lost() -> None:
    # Tiers {0, 1, 2} and {3}. At 10 client 0 has come; without 2, client 1 ends the round at 15.
    server, scheduler, going_on = started([1, 1.5, 2, 3], 0, 2.0)
    assert lose(server, scheduler, 2) == []
    following = [next(going_on) for _ in range(3)]
    assert [told(update)[:3] for update in following] == [(15.0, 0, [0, 1]), (30.0, 1, [3]), (30.0, 0, [0, 1])]
    assert following[0].weights == [0.5, 0.5]


def test_the_round_of_which_only_the_lost_one_is_missing_ends() -> None:
    # Tiers {0} of 1 and {1, 2} of 2.5 and 4 seconds a step: at 30 client 1 has been there for 5 seconds.
    server, scheduler, _ = started([1, 2.5, 4], 3, 2.0)
    assert server.now == 30.0
    (update,) = lose(server, scheduler, 2)
    assert told(update) == (30.0, 1, [1], [0])
    assert update.tier is not None
    assert update.tier.shares == [1 / 4, 3 / 4]
    assert server.under_way[1].started == 30.0


def test_a_tier_without_clients_is_silent_and_keeps_its_share() -> None:
    server, scheduler, going_on = started([1, 4], 5, 2.0)  # 10, 20, 30, and at 40 both
    assert lose(server, scheduler, 1) == []
    update = next(going_on)
    assert told(update)[:3] == (50.0, 0, [0])
    assert update.tier is not None
    assert update.tier.shares == [1 / 6, 5 / 6]


def settings_of(**others: Any) -> TieredSettings:
    made = {"scheduler": "tiered", "client": CLIENT, "server_optimizer": SGD_1, "speed_ratio": 2.0}
    return TieredSettings.model_validate({**made, **others})


def test_clients_without_examples_are_refused_with_the_mend() -> None:
    (mistake,) = settings_of().mistakes(Population(np.array([3, 0]), np.zeros(2, bool)), Budget(server_updates=1))
    assert mistake.startswith("scheduler: tiered starts all clients and counts on their seconds a step, and 1 of 2")


GOOD = {"scheduler": "tiered", "speed_ratio": 2.0}


@pytest.mark.parametrize(
    ("algorithm", "sentence"),
    [
        ({**GOOD, "speed_ratio": 0.5}, "speed_ratio: 0.5 is not allowed"),
        (
            {**GOOD, "server_optimizer": {"name": "adam", "rate": 1.0}},
            "server_optimizer.name: FedAT's global model is a",
        ),
        ({**GOOD, "server_optimizer": {"rate": 0.5}}, "server_optimizer.name: FedAT's global model is a mean of its"),
        ({**GOOD, "server_optimizer": {"momentum": 0.5}}, "server_optimizer.name: FedAT's global model is a mean"),
        ({**GOOD, "client": {"time_limit": {"seconds": 3}}}, "client.time_limit: goes with no scheduler that counts"),
    ],
)
def test_what_is_refused_in_a_file(tiny: Callable[..., Path], algorithm: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_experiment(tiny(lambda content: content["algorithms"].update(mine=algorithm)))
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f"algorithms.mine.{sentence}")
