"""The workloads are experiments that fedhpc takes, of the size that they are known by."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedhpc.data.preparation import population_of, prepared_data
from fedhpc.experiment import Run, load_experiment
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.updates import ServerUpdate
from workflow.bench import workloads
from workflow.bench.files import write_images, write_workload
from workflow.bench.workloads import FULL, SCENARIO, SMALL, Images, Sizes, Workload


def played(workload: Workload, algorithm: str, folder: Path) -> list[ServerUpdate]:
    """The server updates of its schedule, from version 1."""
    experiment = load_experiment(write_workload(workload, folder / "workload"))
    population = population_of(experiment.task, prepared_data(experiment, folder))
    settings = experiment.settings_of(Run(algorithm, SCENARIO, 0))
    assert not settings.algorithm.mistakes(population, settings.budget)
    return list(make_schedule(settings, population).server_updates())[1:]


MADE: list[tuple[Callable[[Sizes], Workload], int, int, int | None]] = [
    (lambda sizes: workloads.emnist(sizes, "fp32"), 5, 50, 5),
    (lambda sizes: workloads.emnist(sizes, "bf16"), 5, 50, 5),
    (lambda sizes: workloads.synthetic(sizes, {"steps": 40}), 50, 60, 40),
    (lambda sizes: workloads.synthetic(sizes, {"epochs": 1}), 50, 60, None),
    (lambda sizes: workloads.mnist(sizes, 50), 2, 10, 50),
    (lambda sizes: workloads.mnist(sizes, 5), 2, 10, 5),
    (lambda sizes: workloads.waiting(sizes, 3), 3, 1, 50),
]


@pytest.mark.parametrize(("make", "rounds", "cohort", "steps"), MADE)
def test_whose_updates_and_how_many_steps(
    make: Callable[[Sizes], Workload], rounds: int, cohort: int, steps: int | None, tmp_path: Path
) -> None:
    updates = played(make(FULL), "fedavg", tmp_path)
    assert len(updates) == rounds
    assert {len(update.updates) for update in updates} == {cohort}
    seen = {client_update.steps for update in updates for client_update in update.updates}
    assert seen == {steps} if steps is not None else len(seen) > 10


def test_null_client_updates(tmp_path: Path) -> None:
    workload = workloads.schedules(SMALL)
    for algorithm in workload.algorithms:
        last = played(workload, algorithm, tmp_path / algorithm)[-1]
        assert SMALL.null_updates <= last.totals.client_updates < SMALL.null_updates + 10


def test_learners_of_all_selections_come_and_go(tmp_path: Path) -> None:
    workload = workloads.week(SMALL)
    assert workload.algorithms == ["uniform", "relay", "oort"]
    for algorithm in workload.algorithms:
        updates = played(workload, algorithm, tmp_path / algorithm)
        assert updates[-1].time <= SMALL.seconds
        assert updates[-1].totals.unique_clients > 100
    assert workloads.week(FULL).settings["task"]["clients"] == 1_000_000
    assert workloads.week(FULL).settings["budget"] == {"virtual_seconds": 7 * 24 * 3600}


def test_images_are_of_every_class_and_lie_client_after_client(tmp_path: Path) -> None:
    write_images(Images(clients=4, examples=30, held_out=70, classes=62), tmp_path / "images.npz")
    with np.load(tmp_path / "images.npz") as arrays:
        assert arrays["x_train"].shape == (120, 28, 28)
        assert arrays["x_test"].shape == (70, 28, 28)
        assert arrays["x_train"].dtype == np.uint8
        assert set(arrays["y_train"]) == set(arrays["y_test"]) == set(range(62))
        assert arrays["client_train"].tolist() == [client for client in range(4) for _ in range(30)]
