"""What a node of the DAG does, called as a plain function."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedhpc.experiment import Run, load_experiment
from fedhpc.store.lease import LeaseLost, take_lease
from fedhpc.store.progress import read_progress
from fedhpc.store.run_file import finished_digest
from tests.workflow.experiments import HOPELESS, SYNCHRONOUS, processes_of, schedules_only, wait_until, write
from workflow.apps import RunFailed, train
from workflow.results_folder import digests, log_file, write_experiment
from workflow.sites import Site

ALONE = Site.model_validate({"ranks_per_run": 1})
GOOD, BAD = Run("fedavg", "slow", 0), Run("hopeless", "slow", 0)
ENDLESS = {"client_updates": 200_000_000}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    content = schedules_only(algorithms={"fedavg": SYNCHRONOUS, "hopeless": HOPELESS})
    write_experiment(load_experiment(write(tmp_path / "small.yaml", content)), folder)
    return folder


def _digest(folder: Path, run: Run) -> str:
    return digests(load_experiment(folder / "experiment.yaml"))[run]


def test_a_failure_survives_pickling() -> None:
    failure = RunFailed(BAD, -9, Path("logs/trial-0.log"), "the\nend")
    copy = pickle.loads(pickle.dumps(failure))
    assert isinstance(copy, RunFailed)
    assert str(copy) == str(failure)
    assert (copy.run, copy.status, copy.log, copy.tail) == (BAD, -9, Path("logs/trial-0.log"), "the\nend")
    assert "killed by SIGKILL" in str(copy)


def test_a_run_gets_its_result_and_leaves_no_progress(folder: Path) -> None:
    with take_lease(folder) as lease:
        train(folder, GOOD, _digest(folder, GOOD), ALONE, lease.token)
    assert finished_digest(GOOD.file(folder, ".h5")) == _digest(folder, GOOD)
    assert not GOOD.file(folder, ".progress.json").exists()


def test_a_finished_run_is_not_even_looked_at(folder: Path) -> None:
    with take_lease(folder) as lease:
        train(folder, GOOD, _digest(folder, GOOD), ALONE, lease.token)
    log_file(folder, GOOD).unlink()
    # The lease is gone, which would end any run that had to be started.
    train(folder, GOOD, _digest(folder, GOOD), ALONE, lease.token)
    assert not log_file(folder, GOOD).exists()


def test_a_failed_run_names_itself_and_its_log(folder: Path) -> None:
    with take_lease(folder) as lease, pytest.raises(RunFailed) as failed:
        train(folder, BAD, _digest(folder, BAD), ALONE, lease.token)
    assert failed.value.status == 2
    assert "hopeless/slow/trial-0: exit status 2" in str(failed.value)
    assert "10,000 deadlines passed" in failed.value.tail
    progress = read_progress(BAD.file(folder, ".progress.json"))
    assert progress is not None
    assert (progress.state, progress.log) == ("failed", str(log_file(folder, BAD)))
    assert "10,000 deadlines passed" in progress.message


def test_a_run_speaks_whatever_task_of_a_job_starts_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "1")
    with take_lease(folder) as lease, pytest.raises(RunFailed) as failed:
        train(folder, BAD, _digest(folder, BAD), ALONE, lease.token)
    assert "10,000 deadlines passed" in failed.value.tail


def test_the_log_of_the_attempt_before_is_kept(folder: Path) -> None:
    log = log_file(folder, BAD)
    log.parent.mkdir(parents=True)
    log.write_text("the attempt before\n")
    with take_lease(folder) as lease, pytest.raises(RunFailed):
        train(folder, BAD, _digest(folder, BAD), ALONE, lease.token)
    assert log.with_name("trial-0.log.1").read_text() == "the attempt before\n"
    assert "the attempt before" not in log.read_text()


def test_without_its_sweeps_lease_a_run_touches_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    with pytest.raises(LeaseLost):
        train(folder, GOOD, _digest(folder, GOOD), ALONE, "a token of long ago")
    # What a killed sweep leaves: its lease, and nobody behind it.
    dead = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from fedhpc.store.lease import take_lease\n"
            "print(take_lease(Path(sys.argv[1])).token)",
            str(folder),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    with pytest.raises(LeaseLost, match="is dead"):
        train(folder, GOOD, _digest(folder, GOOD), ALONE, dead)
    (folder / "lease.json").unlink()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_ends_with_the_worker_that_started_it(tmp_path: Path, ranks: int, number: signal.Signals) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    content = schedules_only(algorithms={"fedavg": SYNCHRONOUS}, budget=ENDLESS, evaluation={"every": 10_000_000})
    write_experiment(load_experiment(write(tmp_path / "long.yaml", content)), folder)
    code = (
        "import sys; from pathlib import Path; from fedhpc.experiment import Run\n"
        "from fedhpc.store.lease import take_lease\n"
        "from workflow.apps import train; from workflow.sites import Site\n"
        "from workflow.results_folder import digests, read_experiment\n"
        "folder = Path(sys.argv[1])\n"
        "with take_lease(folder) as lease:\n"
        f"    site, run = Site.model_validate({{'ranks_per_run': {ranks}}}), Run('fedavg', 'slow', 0)\n"
        "    train(folder, run, digests(read_experiment(folder))[run], site, lease.token)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(folder)]) as worker:
        wait_until(lambda: len(processes_of(folder, "-m workflow run")) >= ranks)
        wait_until(lambda: (told := read_progress(GOOD.file(folder, ".progress.json"))) and told.client_updates > 0)
        os.kill(worker.pid, number)
        wait_until(lambda: not processes_of(folder), 10)
    assert not GOOD.file(folder, ".h5").exists()
