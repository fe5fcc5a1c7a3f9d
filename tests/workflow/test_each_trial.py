"""A partition for each trial, through a whole sweep with tuning."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.data.federated import open_population
from fedhpc.data.preparation import prepare
from fedhpc.experiment import TUNING_TRIAL, TuningRun, load_experiment
from fedhpc.store import open_experiment, open_run
from fedhpc.store.lease import take_lease
from fedhpc.task import Classification
from tests.workflow.experiments import digits, fedhpc, numbers, write
from workflow import apps
from workflow.results_folder import write_experiment

RATE = "client.optimizer.rate"


def content(**changes: Any) -> dict[str, Any]:
    """Two trials and a tuned algorithm, on clients that are drawn for each trial."""
    task = digits(40)["task"]
    partition = {"kind": "dual_dirichlet", "clients": 20, "size_concentration": 20, "class_concentration": 0.5}
    task |= {"partition": {**partition, "each_trial": True}, "model": {"name": "logistic"}}
    tuning = {"metric": "loss", "grid": {"fedbuff": {RATE: [0.05, 0.1]}}}
    return {**digits(40), "trials": 2, "task": task, "tuning": tuning, **changes}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The experiment, and the folder of its sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    experiment = write(folder / "small.yaml", content())
    # One rank and one way to compute a step, so that a run alone holds the same bytes.
    site = write(folder / "alone.yaml", {"ranks_per_run": 1, "step": {"form": "plain"}})
    done = fedhpc("sweep", experiment, "--site", site, "--output", folder / "results")
    assert done.returncode == 0, done.stdout + done.stderr
    return experiment, folder / "results"


def examples_of(file: Path, trial: int, folder: Path) -> list[int]:
    """What each client holds in a trial, prepared anew."""
    experiment = load_experiment(file)
    assert isinstance(experiment.task, Classification)
    prepared = prepare(experiment.task, experiment.seed, file.parent, folder, trial)
    return open_population(prepared).examples.tolist()


def test_every_trial_has_its_own_clients_in_all_algorithms(swept: tuple[Path, Path], tmp_path: Path) -> None:
    file, folder = swept
    held = open_experiment(folder).examples.transpose("algorithm", "scenario", "trial", "client")
    assert held.shape == (2, 1, 2, 20)
    for trial in (0, 1):
        expected = examples_of(file, trial, tmp_path)
        assert held.isel(trial=trial, scenario=0).values.tolist() == [expected] * 2
    assert (held.isel(trial=0) != held.isel(trial=1)).any()
    stragglers = open_experiment(folder).straggler.isel(algorithm=0, scenario=0)
    assert stragglers.sum("client").values.tolist() == [5, 5]
    assert (stragglers.isel(trial=0) != stragglers.isel(trial=1)).any()


def test_tuning_runs_have_their_own_and_share_it(swept: tuple[Path, Path], tmp_path: Path) -> None:
    file, folder = swept
    expected = examples_of(file, TUNING_TRIAL, tmp_path)
    experiment = load_experiment(file)
    runs = list(experiment.tuning_runs(("fedbuff", "slow")))
    assert len(runs) == 2
    for tried in runs:
        assert isinstance(tried, TuningRun)
        assert open_run(tried.file(folder, ".h5")).examples.values.tolist() == expected
    assert expected not in [examples_of(file, trial, tmp_path) for trial in (0, 1)]


def test_each_trials_data_are_prepared_once(swept: tuple[Path, Path]) -> None:
    _, folder = swept
    # Trials 0 and 1, and the tuning runs'.
    assert len(list((folder / "data").iterdir())) == 3


def test_a_run_alone_has_the_sweeps_clients_and_numbers(swept: tuple[Path, Path], tmp_path: Path) -> None:
    file, folder = swept
    asked = ["--algorithm", "fedavg", "--scenario", "slow", "--trial", 1, "--step", "{form: plain}"]
    done = fedhpc("run", file, *asked, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    result = Path("fedavg", "slow", "trial-1.h5")
    assert numbers(tmp_path / result) == numbers(folder / result)


def test_a_further_trial_computes_only_itself(swept: tuple[Path, Path], tmp_path: Path) -> None:
    file = swept[0]
    folder = shutil.copytree(swept[1], tmp_path / "results")
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/trial-*.h5")}
    more = write(tmp_path / "small.yaml", content(trials=3))
    done = fedhpc("sweep", more, "--site", file.with_name("alone.yaml"), "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 runs, 6 of them finished before" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(folder.glob("*/*/trial-*.h5"))) == 6
    held = open_experiment(folder).examples.isel(algorithm=0, scenario=0)
    assert len({tuple(trial) for trial in held.transpose("trial", "client").values}) == 3


def test_the_data_app_prepares_the_trial_that_is_asked_for(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path / "small.yaml", content()))
    folder = tmp_path / "results"
    folder.mkdir()
    write_experiment(experiment, folder)
    with take_lease(folder) as lease:
        paths = [apps.prepare_data(folder, lease.token, trial) for trial in (0, 1)]
    held = [open_population(path).examples for path in paths if path is not None]
    assert len(held) == 2
    assert (np.asarray(held[0]) != np.asarray(held[1])).any()
