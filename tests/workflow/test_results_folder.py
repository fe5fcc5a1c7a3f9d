"""What a results folder holds decides what a sweep may do in it."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

from fedhpc.experiment import Experiment, Run, load_experiment
from fedhpc.mistakes import ExperimentError
from tests.workflow.experiments import BUFFERED, SYNCHRONOUS, fedhpc, schedules_only, write
from workflow.results_folder import (
    digests,
    finished,
    make_writable,
    read_experiment,
    refuse_foreign,
    write_experiment,
)

Change = Callable[..., Experiment]


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """The experiment with some of its keys changed."""

    def make(**changes: Any) -> Experiment:
        return load_experiment(write(tmp_path / "small.yaml", schedules_only(**changes)))

    return make


@pytest.fixture
def folder(tmp_path: Path, change: Change) -> Path:
    """A folder that holds one result: of fedavg, trial 0."""
    folder = tmp_path / "results"
    make_writable(folder)
    change()
    asked = ["--algorithm", "fedavg", "--scenario", "slow", "--trial", 0, "--output", folder]
    assert fedhpc("run", tmp_path / "small.yaml", *asked).returncode == 0
    write_experiment(change(), folder)
    return folder


def _refusal(folder: Path, experiment: Experiment) -> list[str]:
    with pytest.raises(ExperimentError) as refused:
        refuse_foreign(folder, experiment, digests(experiment))
    return refused.value.mistakes


def test_what_is_written_is_the_same_experiment(folder: Path, change: Change) -> None:
    assert digests(read_experiment(folder)) == digests(change())
    assert finished(folder, digests(change())) == [Run("fedavg", "slow", 0)]


def test_data_are_found_again_from_the_results_folder(tmp_path: Path, change: Change) -> None:
    lines = [f"{client},{client % 2},{client / 7}" for client in range(12)]
    (tmp_path / "own.csv").write_text("\n".join(["client,y,x", *lines]))
    data = {"source": "file", "path": "own.csv", "features": ["x"], "label": "y", "client": "client", "held_out": 0.5}
    task = {
        "kind": "classification",
        "data": data,
        "partition": {"kind": "by_column"},
        "model": {"name": "mlp", "hidden": [4]},
    }
    experiment = change(task=task)
    folder = tmp_path / "elsewhere" / "results"
    make_writable(folder)
    write_experiment(experiment, folder)
    assert digests(read_experiment(folder)) == digests(experiment)


def test_files_of_a_scenario_are_found_again_and_told_by_their_content(tmp_path: Path, change: Change) -> None:
    capacity = tmp_path / "capacity.pkl"
    capacity.write_bytes(pickle.dumps({1: {"computation": 100, "communication": 200}}))
    phones = {"devices": {"source": "fedscale", "path": capacity.name, "model_kbit": 800}}
    experiment = change(algorithms={"fedavg": SYNCHRONOUS}, scenarios={"phones": phones})
    folder = tmp_path / "elsewhere" / "results"
    make_writable(folder)
    write_experiment(experiment, folder)
    run = Run("fedavg", "phones", 0)
    asked = ["--algorithm", "fedavg", "--scenario", "phones", "--trial", 0, "--output", folder]
    done = fedhpc("run", folder / "experiment.yaml", *asked)
    assert done.returncode == 0, done.stderr
    with h5py.File(run.file(folder, ".h5")) as file:
        assert file.attrs["devices"] == "of 1 profile in capacity.pkl"
    assert digests(read_experiment(folder)) == digests(experiment)
    assert finished(folder, digests(experiment)) == [run]
    # That it lies elsewhere is no difference; what it holds is.
    refuse_foreign(folder, experiment, digests(experiment))
    capacity.write_bytes(pickle.dumps({1: {"computation": 50, "communication": 200}}))
    told = _refusal(folder, experiment)
    told_of = "other data, another module or file of the model, or another version of fedhpc"
    assert told[0] == f"fedavg/phones/trial-0: its result comes from {told_of}"
    other = change(
        algorithms={"fedavg": SYNCHRONOUS},
        scenarios={"phones": {"devices": {**phones["devices"], "faster_percent": 25}}},
    )
    assert _refusal(folder, other)[0] == "scenarios.phones.devices.faster_percent: was 0.0 and is now 25.0"


@pytest.mark.parametrize(
    "changes",
    [
        {"trials": 5},
        {"trials": 1},
        {"title": "Another title"},
        {"algorithms": {"fedavg": SYNCHRONOUS, "wide": {**SYNCHRONOUS, "cohort": 8}}},
        # No result of it is there: it may have failed for these very settings.
        {"algorithms": {"fedavg": SYNCHRONOUS, "fedbuff": {**BUFFERED, "buffer_size": 3}}},
    ],
)
def test_an_experiment_may_grow(folder: Path, change: Change, changes: dict[str, Any]) -> None:
    experiment = change(**changes)
    refuse_foreign(folder, experiment, digests(experiment))


def test_another_seed_is_another_experiment(folder: Path, change: Change) -> None:
    assert _refusal(folder, change(seed=1))[0] == "seed: was 0 and is now 1"


def test_every_difference_is_told(folder: Path, change: Change) -> None:
    told = _refusal(
        folder, change(budget={"client_updates": 100}, task={"kind": "null", "clients": 30, "examples": 10})
    )
    assert told[:2] == ["task.clients: was 20 and is now 30", "budget.client_updates: was 80 and is now 100"]
    assert "another --output" in told[-1]


def test_a_changed_algorithm_with_a_result_is_refused(folder: Path, change: Change) -> None:
    told = _refusal(folder, change(algorithms={"fedavg": {**SYNCHRONOUS, "cohort": 5}}))
    assert told[0] == "algorithms.fedavg.cohort: was 4 and is now 5"


def test_a_folder_without_results_takes_any_experiment(tmp_path: Path, change: Change) -> None:
    folder = tmp_path / "results"
    make_writable(folder)
    write_experiment(change(), folder)
    experiment = change(seed=1)
    refuse_foreign(folder, experiment, digests(experiment))


def test_a_result_of_other_settings_is_noticed_without_an_experiment_file(folder: Path, change: Change) -> None:
    (folder / "experiment.yaml").unlink()
    assert "fedavg/slow/trial-0: its result comes from other" in _refusal(folder, change(seed=1))[0]


def test_a_file_in_the_folders_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(ExperimentError, match="cannot be written to"):
        make_writable(tmp_path / "results")
