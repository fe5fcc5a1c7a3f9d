"""How much clients do under a time limit, by hand and against a count step by step."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings, TimeLimit
from fedhpc.federation.client_time import PERCENTILE_DRAWS, ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.buffered import Buffered, BufferedSettings
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.latency.sampler import LatencySampler
from fedhpc.latency.scenario import Scenario
from fedhpc.optimizers import SGD

SGD_1 = SGD(name="sgd", rate=1.0)


def seconds(value: float) -> dict[str, Any]:
    return {"distribution": "constant", "value": value}


def exponential(mean: Any) -> dict[str, Any]:
    return {"distribution": "exponential", "mean": mean}


def client(limit: TimeLimit | None, batch_size: int = 4, **work: int) -> ClientSettings:
    return ClientSettings(batch_size=batch_size, optimizer=SGD_1, time_limit=limit, **(work or {"epochs": 1}))  # type: ignore[arg-type]


def client_time(settings: ClientSettings, scenario: dict[str, Any], examples: list[int]) -> ClientTime:
    population = Population(np.array(examples), np.zeros(len(examples), bool))
    return ClientTime(settings, Scenario.model_validate(scenario), population, 0, 0)


# Ten examples in batches of 4, 4 and 2; an example takes 1 second and a step half a second: the steps of a pass end at
# 4.5, 9, 11.5 seconds, those of the next at 16, 20.5, 23.
HAND = {"communication": seconds(100), "overhead": seconds(3), "per_example": seconds(1), "per_step": seconds(0.5)}


@pytest.mark.parametrize(
    ("limit", "steps", "computation"),
    [
        (0.1, 1, 4.5),
        (4.5, 1, 4.5),
        (8.9, 1, 4.5),
        (9, 2, 9),
        (11.4, 2, 9),
        (11.5, 3, 11.5),
        (16, 4, 16),
        (22.9, 5, 20.5),
    ],
)
def test_as_many_steps_as_fit_and_one_at_least(limit: float, steps: int, computation: float) -> None:
    alone = client_time(client(TimeLimit(seconds=limit)), HAND, [10])
    assert alone.of(0, 0, 10) == (steps, 103 + computation)
    with_overhead = client_time(client(TimeLimit(seconds=limit + 3, of="overhead_and_computation")), HAND, [10])
    assert with_overhead.of(0, 0, 10) == (steps, 103 + computation)


def test_a_capability_adds_its_time_for_every_example() -> None:
    # Four examples a second: 20 examples of two epochs take 5 seconds more; of 5 steps 4 + 4 + 2 + 4 + 4.
    capable = {**HAND, "capability": seconds(4)}
    assert client_time(client(None, epochs=2), capable, [10]).of(0, 0, 10) == (6, 103 + 23 + 5)
    assert client_time(client(None, epochs=2), capable, [10]).of(0, 0, 10, 5) == (5, 103 + 20.5 + 18 / 4)
    # With 1.25 seconds an example a limit ends the third batch at 12.5 + 1.5; of one epoch's percentile too.
    assert client_time(client(TimeLimit(seconds=14)), capable, [10]).of(0, 0, 10) == (3, 103 + 14)
    assert client_time(client(TimeLimit(seconds=13.9)), capable, [10]).of(0, 0, 10)[0] == 2
    assert client_time(client(TimeLimit(percentile=50)), capable, [10]).limit == 14


def test_overhead_may_leave_no_time() -> None:
    limited = client_time(client(TimeLimit(seconds=3, of="overhead_and_computation")), HAND, [10])
    assert limited.of(0, 0, 10) == (1, 103 + 4.5)


def test_without_a_limit_the_work_is_as_set() -> None:
    assert client_time(client(None, epochs=2), HAND, [10]).of(0, 0, 10) == (6, 103 + 23)
    assert client_time(client(None, steps=5), HAND, [10]).of(0, 0, 10) == (5, 103 + 20.5)


def test_a_client_without_an_example_does_nothing_under_any_limit() -> None:
    limited = client_time(client(TimeLimit(percentile=75)), HAND, [0, 0])
    assert limited.of(1, 0, 0) == (0, 103)


def test_no_client_takes_more_steps_than_may_be_set() -> None:
    limited = client_time(client(TimeLimit(seconds=1e15)), {"per_step": seconds(1e-9)}, [10])
    assert limited.of(0, 0, 10)[0] == 10**9


@given(
    examples=st.integers(1, 30),
    batch=st.integers(1, 12),
    limit=st.floats(0.01, 60),
    participation=st.integers(0, 1000),
    of=st.sampled_from(["computation", "overhead_and_computation"]),
)
def test_against_a_count_step_by_step(examples: int, batch: int, limit: float, participation: int, of: Any) -> None:
    scenario = {name: exponential(0.5) for name in ("communication", "overhead", "per_example", "per_step")}
    limited = client_time(client(TimeLimit(seconds=limit, of=of), batch), scenario, [examples])
    population = Population(np.array([examples]), np.array([False]))
    latency = LatencySampler(Scenario.model_validate(scenario), population, 0, 0)
    communication, overhead, per_example, per_step = latency.factors(0, participation)

    steps, processed, in_pass = 0, 0, 0
    while True:
        size = min(batch, examples - in_pass)
        end = (overhead if of != "computation" else 0.0) + per_example * (processed + size) + per_step * (steps + 1)
        if steps and end > limit:
            break
        steps, processed, in_pass = steps + 1, processed + size, (in_pass + size) % examples
    total = communication + overhead + per_example * processed + per_step * steps
    assert limited.of(0, participation, examples) == (steps, total)


@pytest.mark.parametrize(
    ("percentile", "work", "limit"),
    [
        # Clients of 4, 8, 12, 16 and 20 examples take 4.5, 9, 13.5, 18 and 22.5 seconds for an epoch.
        (50, {"epochs": 1}, 13.5),
        (50, {"epochs": 2}, 27),
        (100, {"epochs": 1}, 22.5),
        (50, {"steps": 3}, 13.5),
    ],
)
def test_a_percentile_of_the_ordinary_work(percentile: float, work: dict[str, int], limit: float) -> None:
    settings = client(TimeLimit(percentile=percentile), **work)
    limited = client_time(settings, HAND, [4, 8, 0, 12, 16, 20])
    assert limited.limit == limit
    with_overhead = client(TimeLimit(percentile=percentile, of="overhead_and_computation"), **work)
    assert client_time(with_overhead, HAND, [4, 8, 0, 12, 16, 20]).limit == limit + 3


def test_the_percentile_may_be_of_another_time_than_what_is_limited() -> None:
    alone = client(TimeLimit(percentile=50, of="overhead_and_computation", percentile_of="computation"))
    with_overhead = client(TimeLimit(percentile=50, of="computation", percentile_of="overhead_and_computation"))
    sizes = [4, 8, 0, 12, 16, 20]
    limits = [client_time(settings, HAND, sizes).limit for settings in (alone, with_overhead)]
    assert limits[1] is not None
    assert limits[0] == limits[1] - 3


def test_a_client_that_may_not_go_beyond_its_epochs_stops_there() -> None:
    # One epoch of 8 examples; with far more time than that, and with time for one batch alone.
    sizes = [8]
    ordinary = client_time(client(None), HAND, sizes).of(0, 0, 8)
    plenty = client_time(client(TimeLimit(seconds=1e6, beyond=False)), HAND, sizes)
    assert plenty.of(0, 0, 8) == ordinary
    assert client_time(client(TimeLimit(seconds=1e6)), HAND, sizes).of(0, 0, 8)[0] > ordinary[0]
    hardly_any = client_time(client(TimeLimit(seconds=1e-6, beyond=False)), HAND, sizes)
    assert hardly_any.of(0, 0, 8)[0] == 1


@pytest.mark.parametrize("size", [40, 3 * PERCENTILE_DRAWS])
def test_a_percentile_is_within_its_sampling_error(size: int) -> None:
    # Hard et al., Table 1: tN of 100 examples is lognormal; its 75th percentile is 100 exp(-1.6 + 0.5 * 0.67449).
    # Of n draws the logarithm's error is 0.5 * sqrt(0.75 * 0.25 / n) / 0.31778 (the normal's density there).
    per_example = {"distribution": "lognormal", "mu": -1.6, "sigma": 0.5}
    limited = client_time(client(TimeLimit(percentile=75)), {"per_example": per_example}, [100] * size)
    error = 0.5 * np.sqrt(0.75 * 0.25 / PERCENTILE_DRAWS) / 0.31778
    assert limited.limit is not None
    assert np.log(limited.limit / 100) == pytest.approx(-1.6 + 0.5 * 0.67449, abs=4 * error)


def test_a_percentile_is_of_the_clients_as_they_are_in_the_trial() -> None:
    # Every client has one speed, that of its trial: half the clients are no slower than the median.
    scenario = Scenario.model_validate({"per_step": {"distribution": "constant", "value": exponential(1.0)}})
    population = Population(np.full(101, 4), np.zeros(101, bool))
    limits = set()
    for trial in range(3):
        speeds = LatencySampler(scenario, population, 5, trial)
        limited = ClientTime(client(TimeLimit(percentile=50)), scenario, population, 5, trial)
        assert limited.limit == np.median([speeds.factors(one, 0)[3] for one in range(101)])
        again = ClientTime(client(TimeLimit(percentile=50)), scenario, population, 5, trial)
        assert again.limit == limited.limit
        limits.add(limited.limit)
    assert len(limits) == 3


def test_ten_million_clients_cost_no_more_than_those_that_are_used() -> None:
    size = 10**7
    population = Population(np.full(size, 100), np.zeros(size, bool))
    scenario = Scenario.model_validate(
        {"per_step": {"distribution": "normal", "mean": exponential(0.16), "variation": 0.05}}
    )
    settings = BufferedSettings(
        scheduler="buffered",
        client=client(TimeLimit(percentile=75)),
        server_optimizer=SGD_1,
        buffer_size=10,
        concurrency=100,
    )
    tracemalloc.start()
    try:
        server = VirtualServer(
            scheduler=Buffered(settings),
            population=population,
            client_time=ClientTime(settings.client, scenario, population, 0, 0),
            free=FreeClients(size, np.random.default_rng(0)),
            budget=Budget(client_updates=2_000),
            chance=np.random.default_rng(0),
        )
        updates = sum(len(update.updates) for update in server.server_updates())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert updates == 2_000
    # One float a client would be 80 MB.
    assert peak < 60e6
