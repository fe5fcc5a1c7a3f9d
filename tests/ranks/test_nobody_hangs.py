"""A rank that raises or dies ends its run within ten seconds, with its traceback in the log and a non-zero exit."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedhpc.experiment import Run
from fedhpc.processes import is_alive
from fedhpc.ranks.world import LauncherError, join_world, mpiexec
from tests.mpi import ONE_THREAD, children, mpi, numbers, run_command

RAISES = """
from fedhpc.ranks.world import abort_together, join_world, wait_for_all, watched
world = join_world()
with abort_together(world, quietly=(KeyError,)), watched(world):
    if world.rank == {rank}:
        raise {error}
    wait_for_all(world)
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_raises_ends_the_run_with_its_traceback(rank: int) -> None:
    start = time.monotonic()
    finished = mpi(3, [sys.executable, "-c", RAISES.format(rank=rank, error='RuntimeError("out of luck")')])
    assert finished.returncode != 0
    assert "Traceback" in finished.stderr
    assert "RuntimeError: out of luck" in finished.stderr
    assert time.monotonic() - start < 10


def test_what_is_no_defect_ends_the_run_with_its_sentence_alone() -> None:
    finished = mpi(2, [sys.executable, "-c", RAISES.format(rank=1, error='KeyError("the lease is gone")')])
    assert finished.returncode != 0
    assert "the lease is gone" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_what_rank_0_refuses_every_rank_refuses(tiny: Callable[..., Path], tmp_path: Path) -> None:
    file = tiny(lambda settings: settings["algorithms"]["fedavg"].update(cohort=13))
    finished = mpi(3, run_command(file, Run("fedavg", "domain", 0), tmp_path / "results"))
    assert finished.returncode != 0
    sentence = "algorithms.fedavg.cohort: 13 exceeds the population of 12 clients; lower it"
    assert finished.stderr.count(sentence) == 3


def ranks_of(launcher: subprocess.Popen[bytes]) -> list[int]:
    """The processes of the ranks, the launcher's grandchildren, once all have written their number."""
    return [rank for proxy in children(launcher.pid) for rank in children(proxy)]


def long_run(settings: dict) -> None:  # type: ignore[type-arg]
    settings["budget"] = {"client_updates": 6000}
    settings["evaluation"] = {"every": 1000}


def started(file: Path, folder: Path, ranks: int) -> subprocess.Popen[bytes]:
    command = [mpiexec(), "-n", str(ranks), *run_command(file, Run("fedbuff", "domain", 0), folder, 0.05)]
    log = (folder.parent / "log").open("ab")
    return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | ONE_THREAD)


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("victim", ["rank 0", "rank 1", "launcher", "proxy"])
def test_a_killed_process_ends_the_run(tiny: Callable[..., Path], tmp_path: Path, victim: str) -> None:
    folder = tmp_path / "results"
    launcher = started(tiny(long_run), folder, 3)
    assert wait_until(lambda: any(folder.rglob("*.checkpoint")), 60), (tmp_path / "log").read_text()
    ranks = ranks_of(launcher)
    assert len(ranks) == 3
    proxy = int(Path(f"/proc/{ranks[0]}/stat").read_text().rpartition(")")[2].split()[1])
    target = {"rank 0": ranks[0], "rank 1": ranks[1], "launcher": launcher.pid, "proxy": proxy}[victim]
    os.kill(target, signal.SIGKILL)
    assert wait_until(lambda: not any(map(is_alive, ranks)), 10)
    assert launcher.wait(10) != 0


def test_killed_at_random_moments_the_result_is_that_of_an_undisturbed_run(
    tiny: Callable[..., Path], tmp_path: Path
) -> None:
    file, cell = tiny(long_run), Run("fedbuff", "domain", 0)
    undisturbed = mpi(2, run_command(file, cell, tmp_path / "undisturbed"))
    assert undisturbed.returncode == 0, undisturbed.stderr
    folder, chance, kills = tmp_path / "results", random.Random(5), 0
    checkpoint = cell.file(folder, ".checkpoint")
    while not cell.file(folder, ".h5").exists():
        launcher = started(file, folder, 2)
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        wait_until(
            lambda before=before, launcher=launcher: (
                launcher.poll() is not None or (checkpoint.exists() and checkpoint.stat().st_mtime_ns > before)
            ),
            60,
        )
        time.sleep(chance.random() * 0.4)
        ranks = ranks_of(launcher)
        if ranks and launcher.poll() is None and kills < 4:
            os.kill(chance.choice(ranks), signal.SIGKILL)
            kills += 1
        launcher.wait(60)
    assert kills >= 1
    assert numbers(cell.file(folder, ".h5")) == numbers(cell.file(tmp_path / "undisturbed", ".h5"))
    assert not checkpoint.exists()


def test_a_foreign_launcher_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Open MPI's mpiexec would set these for each of its four processes, of which MPICH knows nothing.
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.delenv("PMI_SIZE", raising=False)
    with pytest.raises(LauncherError, match=r"Open MPI's mpiexec started 4 processes.*sees one"):
        join_world()


def test_the_launcher_is_the_one_beside_python() -> None:
    assert mpiexec() == str(Path(sys.executable).parent / "mpiexec")
