"""kill -9 of anything at any moment, then the same command: the same bytes as of an undisturbed sweep (laws 5, 7)."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.experiments import (
    fedhpc,
    kill,
    parent,
    processes_of,
    results,
    same_numbers,
    schedules_only,
    started,
    wait_until,
    write,
)

RUN = "-m workflow run"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("site") / "hasty.yaml", {"checkpoint_seconds": 0.3, "retries": 5})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "results"
    for process in processes_of(tmp_path / "results"):
        kill(process)


@pytest.mark.parametrize("seed", range(2))
def test_the_driver_is_killed_and_the_same_command_goes_on(
    folder: Path, tmp_path: Path, one_run: Path, site: Path, undisturbed: Path, seed: int
) -> None:
    moments = random.Random(seed)
    for attempt in range(2):
        with started("sweep", one_run, "--site", site, "--output", folder, log=tmp_path / f"log-{attempt}") as driver:
            # Half of the time at any moment of the start, else once there is something to lose.
            if moments.random() < 0.5:
                wait_until(lambda: processes_of(folder, RUN) or driver.poll() is not None)
            else:
                wait_until(lambda: _fresh_checkpoint(folder) or driver.poll() is not None)
            time.sleep(moments.uniform(0, 4))
            driver.kill()
        # Its pool and its ranks live on when the next sweep starts.
    done = fedhpc("sweep", one_run, "--site", site, "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert same_numbers(folder, undisturbed)
    assert not processes_of(folder)
    assert not list(folder.glob("**/*.tmp.*"))


def test_what_a_dead_driver_leaves_ends_by_itself(tmp_path: Path, folder: Path) -> None:
    endless = schedules_only(budget={"client_updates": 200_000_000}, evaluation={"every": 10_000_000})
    with started("sweep", write(tmp_path / "long.yaml", endless), "--output", folder, log=tmp_path / "log") as driver:
        wait_until(lambda: len(processes_of(folder, RUN)) >= 2)
        driver.kill()
    wait_until(lambda: not processes_of(folder), 90)
    assert not results(folder)


def test_parts_are_killed_and_the_run_is_tried_again(
    folder: Path, tmp_path: Path, one_run: Path, site: Path, undisturbed: Path
) -> None:
    """One sweep, whose ranks, launcher, worker and pool die in turn, each once the run has come further."""
    with started("sweep", one_run, "--site", site, "--output", folder, log=tmp_path / "log") as driver:
        for victim in ("rank", "mpiexec", "worker", "pool"):
            wait_until(lambda: _victims(folder, "rank") and _fresh_checkpoint(folder))
            for checkpoint in folder.glob("*/*/*.checkpoint*"):
                os.utime(checkpoint, (0, 0))
            kill(_victims(folder, victim)[0])
        assert driver.wait(200) == 0, (tmp_path / "log").read_text()
    assert same_numbers(folder, undisturbed)
    assert not processes_of(folder)


def _fresh_checkpoint(folder: Path) -> bool:
    """One that was written since the last was marked as old."""
    return any(checkpoint.stat().st_mtime > 0 for checkpoint in folder.glob("*/*/*.checkpoint*"))


def _victims(folder: Path, kind: str) -> list[int]:
    launchers = processes_of(folder, "mpiexec", RUN)
    match kind:
        case "rank":
            return [process for process in processes_of(folder, RUN) if process not in launchers]
        case "mpiexec":
            return launchers
        case "worker":
            return [parent(process) for process in launchers]
        case _:
            return processes_of(folder, "-m parsl.executors.high_throughput.process_worker_pool")
