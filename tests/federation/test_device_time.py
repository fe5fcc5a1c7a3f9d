"""Where devices enter a client's time: beside the latency factors, within time limits, in a profile before second 0."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.clients.settings import ClientSettings, TimeLimit
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.latency.scenario import Scenario
from fedhpc.optimizers import SGD

# Ten examples in batches of 4, 4 and 2: three steps of 3 * 4 * 250 / 1000 = 3 s by the device, full or not, whose link
# takes 2 * 800 / 200 = 8 s. By the factors a step takes half a second more and an example 1 s.
FACTORS = {
    "communication": {"distribution": "constant", "value": 100},
    "overhead": {"distribution": "constant", "value": 3},
    "per_example": {"distribution": "constant", "value": 1},
    "per_step": {"distribution": "constant", "value": 0.5},
}
CAPABILITY = {"distribution": "constant", "value": 4}


@pytest.fixture
def devices(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "capacity"
    path.write_bytes(pickle.dumps({7: {"computation": 250, "communication": 200}}))
    return {"source": "fedscale", "path": path, "model_kbit": 800}


def time(scenario: dict[str, Any], examples: list[int], limit: TimeLimit | None = None, **others: Any) -> ClientTime:
    client = ClientSettings(batch_size=4, epochs=1, optimizer=SGD(name="sgd", rate=1), time_limit=limit, **others)
    population = Population(np.array(examples), np.zeros(len(examples), bool))
    return ClientTime(client, Scenario.model_validate(scenario), population, 0, 0)


def test_devices_alone(devices: dict[str, Any]) -> None:
    alone = time({"devices": devices}, [10, 0])
    assert alone.of(0, 0, 10) == (3, 8 + 9)
    assert alone.of(0, 5, 10) == (3, 8 + 9)
    # As many steps as a scheduler asks for.
    assert alone.of(0, 0, 10, 5) == (5, 8 + 15)
    # Without an example the model still travels.
    assert alone.of(1, 0, 0) == (0, 8)


def test_devices_add_to_what_else_takes_time(devices: dict[str, Any]) -> None:
    everything = {**FACTORS, "capability": CAPABILITY, "devices": devices}
    assert time(everything, [10]).of(0, 0, 10) == (3, 103 + 10 + 1.5 + 10 / 4 + 8 + 9)


def test_a_time_limit_counts_a_devices_computation_and_not_its_link(devices: dict[str, Any]) -> None:
    # Steps end at 4 + 0.5 + 3 = 7.5, 15 and 20.5 s of computation.
    for limit, steps, spent in ((7.5, 1, 7.5), (14.9, 1, 7.5), (15, 2, 15), (20.5, 3, 20.5)):
        limited = time({**FACTORS, "devices": devices}, [10], TimeLimit(seconds=limit, beyond=False))
        assert limited.of(0, 0, 10) == (steps, 100 + 3 + spent + 8)
    assert time({"devices": devices}, [10, 4], TimeLimit(percentile=100)).limit == 9


def test_a_profile_knows_the_devices(devices: dict[str, Any]) -> None:
    assert time({"devices": devices}, [10, 4]).profile() == [pytest.approx(17 / 3), 8 + 3]
    with_factors = time({**FACTORS, "devices": devices}, [10]).profile()
    assert with_factors == [pytest.approx((103 + 10 + 1.5 + 17) / 3)]


def test_a_deadline_is_of_capabilities_alone(devices: dict[str, Any]) -> None:
    plain = {"capability": CAPABILITY, "straggler_percent": 50}
    found = time({**plain, "devices": devices}, [10, 10], within_deadline="fewer_epochs")
    assert found.deadline == time(plain, [10, 10]).deadline == 2.5
    assert found.of(0, 0, 10) == (3, 2.5 + 17)


def test_the_models_size_is_the_populations(devices: dict[str, Any]) -> None:
    del devices["model_kbit"]
    population = Population(np.array([4]), np.zeros(1, bool), parameters=25_000)
    client = ClientSettings(batch_size=4, epochs=1, optimizer=SGD(name="sgd", rate=1))
    # 25,000 parameters are 800 kbit.
    assert ClientTime(client, Scenario(devices=devices), population, 0, 0).of(0, 0, 4) == (1, 8 + 3)  # type: ignore[arg-type]


def test_devices_are_the_trials(devices: dict[str, Any]) -> None:
    population = Population(np.full(50, 4), np.zeros(50, bool))
    client = ClientSettings(batch_size=4, epochs=1, optimizer=SGD(name="sgd", rate=1))
    scenario = Scenario.model_validate({"devices": {"source": "clusters", "model_kbit": 800}})

    def updates(seed: int, trial: int) -> list[float]:
        found = ClientTime(client, scenario, population, seed, trial)
        return [found.of(one, 0, 4)[1] for one in range(50)]

    assert len(set(updates(0, 0))) == 50
    assert updates(0, 0) == updates(0, 0)
    assert updates(0, 0) != updates(0, 1)
    assert updates(0, 0) != updates(1, 0)
