"""``fedhpc status`` on folders made by hand."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fedhpc.experiment import Run, load_experiment
from fedhpc.store.lease import take_lease
from fedhpc.store.progress import Progress, write_progress
from tests.workflow.experiments import fedhpc, schedules_only, write
from workflow.results_folder import write_experiment
from workflow.status import run_state, status_lines

RUN = Run("fedbuff", "slow", 1)


def _progress(**changes: object) -> Progress:
    here = Progress("running", 0.43, 34, 120.0, "", None, socket.gethostname(), os.getpid(), time.time())
    return replace(here, **changes)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    write_experiment(load_experiment(write(tmp_path / "small.yaml", schedules_only())), folder)
    return folder


def _state(folder: Path, progress: Progress, now: float | None = None) -> str:
    write_progress(RUN.file(folder, ".progress.json"), progress)
    return run_state(folder, RUN, time.time() if now is None else now).state


def test_a_run_whose_process_lives_is_running(folder: Path) -> None:
    # However old its news: a single client update may take long.
    assert _state(folder, _progress(updated_wall=0.0)) == "running"


def test_a_run_whose_process_is_gone_waits(folder: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert _state(folder, _progress(pid=gone.pid)) == "waiting"


@pytest.mark.parametrize(("age", "state"), [(5.0, "running"), (60.0, "waiting")])
def test_elsewhere_only_fresh_news_tell(folder: Path, age: float, state: str) -> None:
    assert _state(folder, _progress(host="another-machine", updated_wall=1000.0), now=1000.0 + age) == state


def test_a_run_that_failed_has_failed(folder: Path) -> None:
    assert _state(folder, _progress(state="failed")) == "failed"


def test_the_lines_of_a_folder(folder: Path) -> None:
    asked = ["--algorithm", "fedavg", "--scenario", "slow", "--trial", 0, "--output", folder]
    assert fedhpc("run", folder / "experiment.yaml", *asked).returncode == 0
    write_progress(RUN.file(folder, ".progress.json"), _progress())
    failed = _progress(
        state="failed", message="exit status 1\na traceback\nValueError: no", log="/somewhere/trial-0.log"
    )
    write_progress(Run("fedbuff", "slow", 0).file(folder, ".progress.json"), failed)
    assert status_lines(folder) == [
        "4 runs: 1 finished, 1 running, 1 failed, 1 waiting",
        "no sweep is at work here",
        "  failed   fedbuff/slow/trial-0  log: /somewhere/trial-0.log",
        "             exit status 1",
        "             a traceback",
        "             ValueError: no",
        "  running  fedbuff/slow/trial-1  43 %",
    ]


def test_a_sweep_at_work_is_named(folder: Path) -> None:
    with take_lease(folder):
        assert f"process {os.getpid()}" in status_lines(folder)[1]


def test_an_interrupted_run_says_how_far_it_came(folder: Path) -> None:
    write_progress(RUN.file(folder, ".progress.json"), _progress(host="another-machine", updated_wall=0.0))
    done = fedhpc("status", folder)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "4 runs: 0 finished, 0 running, 0 failed, 4 waiting",
        "no sweep is at work here",
        "  waiting  fedbuff/slow/trial-1  interrupted at 43 %",
    ]


def test_the_output_of_a_job_may_be_gone(folder: Path) -> None:
    logs = folder / "logs" / "slurm"
    logs.mkdir(parents=True)
    (logs / "sweep-41.log").symlink_to(folder.parent / "deleted.log")
    assert "0 finished" in status_lines(folder)[0]
