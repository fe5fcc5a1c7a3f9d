"""Real silos under a real clock: who is slow, who dies, who hangs, and who starts again. Two cores may carry them all,
so that times are only told to be in order or far apart."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import yaml

from fedhpc.experiment import Run
from fedhpc.processes import is_alive
from fedhpc.ranks.world import mpiexec
from fedhpc.store import open_run
from tests.mpi import ONE_THREAD, children, mpi, run_command

FEDAVG = {"scheduler": "synchronous", "cohort": 4, "weighting": "uniform"}
FEDBUFF = {"scheduler": "buffered", "buffer_size": 2, "concurrency": 3}
FEDASYNC = {"scheduler": "asynchronous", "concurrency": 4, "mixing": 0.5}


def silos(folder: Path, algorithm: dict[str, Any], budget: dict[str, Any], **changes: Any) -> Path:
    """The handwritten digits in four silos."""
    settings = {
        "clock": "wall",
        "silence": 3,
        "task": {
            "kind": "classification",
            "data": {"source": "digits", "held_out": 0.2},
            "partition": {"kind": "iid", "clients": 4},
            "model": {"name": "mlp", "hidden": [16]},
        },
        "client": {"batch_size": 10, "steps": 10, "optimizer": {"name": "sgd", "rate": 0.1}},
        "server_optimizer": {"name": "sgd", "rate": 1.0},
        "algorithms": {"one": algorithm},
        "scenarios": {"here": {"slowdown": changes.pop("slowdown", 1)}},
        "budget": budget,
        "evaluation": {"every": 10},
        **changes,
    }
    file = folder / "silos.yaml"
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    return file


CELL = Run("one", "here", 0)
PLAIN = "{form: plain}"

_ABSENT_SERVER = """
import time
from mpi4py import MPI
from fedhpc.ranks.silos import Silos
world = MPI.COMM_WORLD
if world.rank == 0:
    silos = Silos(world, silence=1.5)
    def look(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            silos.answers()
            time.sleep(0.01)
    for _ in range(2):
        time.sleep(2)
        silos.answers()
        print(silos.silent())
        look(1)
    print(silos.silent())
world.Barrier()
"""
"""Rank 0 is away twice for longer than the silence that it allows; its silo never says a word."""


def job(file: Path, folder: Path) -> list[str]:
    return [mpiexec(), "-disable-auto-cleanup", "-n", "5", *run_command(file, CELL, folder, 0.2, PLAIN)]


def lived(file: Path, folder: Path) -> xr.Dataset:
    finished = subprocess.run(
        job(file, folder), capture_output=True, text=True, timeout=120, env=os.environ | ONE_THREAD, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return open_run(CELL.file(folder, ".h5"))


def rank_of(process: int) -> int:
    variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return int(next(value for name, _, value in (one.partition(b"=") for one in variables) if name == b"PMI_RANK"))


class Job:
    """A run under way: ``server`` and ``silos`` are processes, by client."""

    def __init__(self, launcher: subprocess.Popen[bytes], log: Path) -> None:
        self.launcher, self.log = launcher, log
        ranks = {rank_of(process): process for proxy in children(launcher.pid) for process in children(proxy)}
        self.server = ranks.pop(0)
        self.guards = [ranks[rank] for rank in sorted(ranks)]
        self.silos = [children(guard)[0] for guard in self.guards]

    def told(self, words: str) -> bool:
        return words in self.log.read_text()

    @property
    def processes(self) -> list[int]:
        return [self.server, *self.guards, *self.silos]


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)


@contextmanager
def under_way(file: Path, folder: Path) -> Iterator[Job]:
    """A run that has written a checkpoint; nothing of it is left at the block's end."""
    log = folder.parent / "log"
    with log.open("ab") as output:
        launcher = subprocess.Popen(job(file, folder), stdout=output, stderr=output, env=os.environ | ONE_THREAD)
    before = sorted(path.stat().st_mtime_ns for path in folder.rglob("*.checkpoint"))
    try:
        wait_until(
            lambda: (
                launcher.poll() is not None
                or sorted(path.stat().st_mtime_ns for path in folder.rglob("*.checkpoint")) > before
            )
        )
        assert launcher.poll() is None, log.read_text()
        found = Job(launcher, log)
        yield found
        launcher.wait(60)
        wait_until(lambda: not any(map(is_alive, found.processes)), 10)
    finally:
        launcher.kill()
        launcher.wait()


def test_a_synchronous_federation_counts_and_learns(tmp_path: Path) -> None:
    result = lived(silos(tmp_path, FEDAVG, {"client_updates": 200}), tmp_path / "results")
    assert result.client_updates[-1] == 200
    assert result.server_update.size == 50
    assert (result.updates_aggregated == 4).all()
    assert result.participations.values.tolist() == [51] * 4  # a round of its own began when the last one closed
    assert result.updates_aggregated_of_client.values.tolist() == [50] * 4
    assert result.local_steps[-1] == 2000
    assert (result.staleness == 0).all()
    assert (np.diff(result.server_update_time) > 0).all()
    assert 0 < result.resource_used[-1] < 4 * result.time[-1]
    assert result.total_accuracy[0] < 0.4
    assert result.total_accuracy[-1] > 0.8
    assert result.attrs["clock"] == "wall"
    assert result.attrs["silos_lost"] == "[]"
    assert np.isnan(result.lost_at).all()


def test_who_is_slow_is_stale_and_heard_less(tmp_path: Path) -> None:
    file = silos(tmp_path, FEDASYNC, {"client_updates": 300}, slowdown=[1, 1, 1, 20])
    result = lived(file, tmp_path / "results")
    slow = result.updates_aggregated_of_client.values
    assert slow[3] < slow[:3].min() / 2
    assert result.staleness_max.max() > 3
    assert result.client_updates[-1] == 300


def test_a_buffer_does_not_wait_for_the_slow_one(tmp_path: Path) -> None:
    file = silos(tmp_path, FEDBUFF, {"client_updates": 200}, slowdown=[1, 1, 1, 10])
    result = lived(file, tmp_path / "results")
    assert (result.updates_aggregated == 2).all()
    assert result.staleness.max() > 0
    updates = result.updates_aggregated_of_client.values
    assert 0 < updates[3] < updates[:3].min()


def test_compass_hears_everybody_in_groups(tmp_path: Path) -> None:
    algorithm = {"scheduler": "compass", "min_steps": 5, "max_steps": 100, "mixing": 0.9}
    file = silos(tmp_path, algorithm, {"client_updates": 120}, slowdown=[1, 1, 1, 4])
    result = lived(file, tmp_path / "results")
    assert result.client_updates[-1] >= 120
    assert result.client_updates[-1] + result.attrs["updates_waiting"] == result.client_trips[-1]
    assert result.updates_aggregated.max() > 1
    assert (result.updates_aggregated_of_client > 0).all()
    assert result.total_accuracy[-1] > 0.5
    assert result.attrs["silos_lost"] == "[]"


def test_tiers_are_measured_before_the_federation(tmp_path: Path) -> None:
    algorithm = {"scheduler": "tiered", "speed_ratio": 40.0}
    file = silos(tmp_path, algorithm, {"virtual_seconds": 8}, slowdown=[1, 1, 1, 400])
    result = lived(file, tmp_path / "results")
    # The slow one is a tier of its own: its updates come alone, those of the others by three.
    updates = result.updates_aggregated_of_client.values
    assert (result.updates_aggregated == 3).sum() == updates[0] == updates[1] == updates[2]
    assert (result.updates_aggregated == 1).sum() == updates[3]
    assert updates[0] > updates[3]


def test_a_deadline_is_kept_while_a_silo_sleeps(tmp_path: Path) -> None:
    # Its ten steps take a thousand times as long as those of the others: many seconds.
    algorithm = {**FEDAVG, "deadline": 1.0}
    file = silos(tmp_path, algorithm, {"server_updates": 3}, slowdown=[1, 1, 1, 10_000])
    result = lived(file, tmp_path / "results")
    rounds = np.diff(result.server_update_time.values, prepend=0.0)
    assert (rounds >= 1.0).all()
    assert (rounds < 10.0).all()
    assert result.updates_aggregated_of_client[3] == 0
    assert result.participations[3] >= 3
    assert result.resource_wasted[-1] >= 3.0
    assert result.attrs["silos_lost"] == "[]"  # it sleeps, and says that it lives


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("algorithm", [FEDBUFF, FEDAVG], ids=["fedbuff", "fedavg"])
def test_a_federation_goes_on_without_a_silo(tmp_path: Path, algorithm: dict[str, Any], blow: signal.Signals) -> None:
    folder = tmp_path / "results"
    with under_way(silos(tmp_path, algorithm, {"virtual_seconds": 12}), folder) as run:
        os.kill(run.silos[2], blow)
        wait_until(lambda: run.told("silo 2 (client 2, rank 3) was silent for 3 s and is given up"), 30)
        assert run.launcher.wait(60) == 0, run.log.read_text()
    result = open_run(CELL.file(folder, ".h5"))
    ((name, second),) = json.loads(result.attrs["silos_lost"])
    assert name == "2"
    assert result.lost_at[2] == pytest.approx(second, abs=1e-3)
    assert np.isnan(result.lost_at.values[[0, 1, 3]]).all()
    assert (result.server_update_time > second + 1).sum() > 10
    updates = result.updates_aggregated_of_client.values
    assert updates[2] < updates[[0, 1, 3]].min()
    assert result.resource_wasted[-1] > 1  # the time until it was given up


def test_one_that_comes_back_too_late_is_not_heard(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    with under_way(silos(tmp_path, FEDBUFF, {"virtual_seconds": 14}), folder) as run:
        os.kill(run.silos[0], signal.SIGSTOP)
        wait_until(lambda: run.told("silo 0 (client 0, rank 1) was silent"), 30)
        os.kill(run.silos[0], signal.SIGCONT)
        assert run.launcher.wait(60) == 0, run.log.read_text()
    result = open_run(CELL.file(folder, ".h5"))
    assert [name for name, _ in json.loads(result.attrs["silos_lost"])] == ["0"]
    # Its last start is never answered.
    assert result.participations[0] == result.updates_aggregated_of_client[0] + 1
    assert result.server_update_time[-1] > result.lost_at[0] + 2


def test_an_absence_of_the_servers_own_excuses_a_silo_once() -> None:
    done = mpi(2, [sys.executable, "-c", _ABSENT_SERVER])
    assert done.returncode == 0, done.stderr
    # After the first absence nobody is blamed for it. The silo says nothing for a second, and the next absence counts.
    assert done.stdout.splitlines() == ["[]", "[0]", "[]"]


def test_too_few_silos_end_the_run_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    with under_way(silos(tmp_path, FEDBUFF, {"virtual_seconds": 600}), folder) as run:
        for client in (0, 1, 2):
            os.kill(run.silos[client], signal.SIGKILL)
        assert run.launcher.wait(60) != 0
        assert run.told("algorithms.one, scenario here: no client is training and no timer is set; too few silos are")
        assert run.told("left, 1 of 4")
        assert not run.told("Traceback")
    assert not CELL.file(folder, ".h5").exists()


@pytest.mark.parametrize("victim", ["server", "launcher"])
def test_without_the_server_or_the_launcher_no_silo_stays(tmp_path: Path, victim: str) -> None:
    folder = tmp_path / "results"
    with under_way(silos(tmp_path, FEDAVG, {"virtual_seconds": 600}), folder) as run:
        os.kill(run.silos[3], signal.SIGSTOP)
        os.kill(run.server if victim == "server" else run.launcher.pid, signal.SIGKILL)
        assert run.launcher.wait(20) != 0
        wait_until(lambda: not any(map(is_alive, run.processes)), 20)


def test_a_killed_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    file = silos(tmp_path, {**FEDBUFF, "ema": {"decay": 0.9}}, {"virtual_seconds": 8})
    with under_way(file, folder) as run:
        progress = CELL.file(folder, ".progress.json")
        wait_until(lambda: progress.exists() and json.loads(progress.read_text())["virtual_seconds"] > 3)
        before = json.loads(progress.read_text())
        time.sleep(0.5)  # a checkpoint later
        os.kill(run.server, signal.SIGKILL)
    began = time.monotonic()
    result = lived(file, folder)
    assert time.monotonic() - began > 1  # it was not over, and it did not begin again:
    assert result.time[-1] > 8 - 2
    assert (np.diff(result.time) >= 0).all()
    assert (np.diff(result.server_update_time) >= 0).all()
    assert (np.diff(result.client_updates) >= 0).all()
    assert result.server_update.size == result.server_updates[-1]
    early = (result.server_update_time <= before["virtual_seconds"]).sum()
    assert 2 * early >= before["client_updates"] - 2
    assert result.updates_aggregated_of_client.sum() == result.client_updates[-1]
    assert result.total_accuracy[-1] > 0.8
    assert not CELL.file(folder, ".checkpoint").exists()


def test_another_number_of_ranks_is_refused(tmp_path: Path) -> None:
    file = silos(tmp_path, FEDAVG, {"client_updates": 20})
    for ranks in (1, 3):
        finished = mpi(ranks, run_command(file, CELL, tmp_path / "results"))
        assert finished.returncode != 0
        assert f"a run takes 5 ranks, rank 0 and one for each of 4 clients; this one has {ranks}" in finished.stderr


def test_a_run_whose_every_process_is_asked_to_stop_goes_on_from_there(tmp_path: Path) -> None:
    folder, progress = tmp_path / "results", CELL.file(tmp_path / "results", ".progress.json")
    file = silos(tmp_path, {**FEDBUFF, "ema": {"decay": 0.9}}, {"virtual_seconds": 8})
    with under_way(file, folder) as run:
        wait_until(lambda: progress.exists() and json.loads(progress.read_text())["virtual_seconds"] > 3)
        for process in [*children(run.launcher.pid), *run.processes] * 2:
            os.kill(process, signal.SIGTERM)
    kept = re.search(r"interrupted; a checkpoint was written at server version (\d+)", run.log.read_text())
    assert kept is not None, run.log.read_text()
    told = json.loads(progress.read_text())
    assert told["state"] == "interrupted"
    finished = subprocess.run(
        job(file, folder), capture_output=True, text=True, timeout=90, env=os.environ | ONE_THREAD
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"goes on from server version {kept[1]}\n" in finished.stderr
    result = open_run(CELL.file(folder, ".h5"))
    assert (np.diff(result.server_update_time) >= 0).all()
    assert result.server_update.size == result.server_updates[-1] > int(kept[1])
    # Nothing that was told to have been done is done again.
    assert (result.server_update_time <= told["virtual_seconds"]).sum() == int(kept[1])
