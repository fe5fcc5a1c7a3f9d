"""A run that is asked to stop ends with a checkpoint, and goes on to the same bytes (law 5)."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fedhpc import run as run_module
from fedhpc.experiment import Run, load_experiment
from fedhpc.federation.checkpoint import save_checkpoint
from fedhpc.interruption import INTERRUPTED, Interrupted
from fedhpc.processes import is_alive
from fedhpc.ranks.world import mpiexec
from fedhpc.run import run
from fedhpc.store.progress import read_progress
from fedhpc.store.run_file import finished_digest, write_run
from tests.mpi import ONE_THREAD, children, mpi, numbers, run_command
from tests.workflow.experiments import command, wait_until
from workflow.parent_death import end_with_parent_only

CELL = Run("fedbuff", "domain", 0)
NEVER = 1e9
Tiny = Callable[..., Path]


def live(file: Path, folder: Path, checkpoint_seconds: float = NEVER) -> bool:
    return run(load_experiment(file), CELL, folder, lease=None, checkpoint_seconds=checkpoint_seconds)


def ask(number: int = signal.SIGTERM) -> None:
    """The kernel delivers it before this returns, and Python sees it at the next bytecode."""
    os.kill(os.getpid(), number)


class Asking:
    """At the ``moment``-th look after the start, a signal comes."""

    def __init__(self, moment: int, monkeypatch: pytest.MonkeyPatch, number: int = signal.SIGTERM) -> None:
        self.looks = 0
        pulse = run_module._Files.pulse

        def asked(files: Any, newest: Any, checkpoint: Any) -> None:
            self.looks += 1
            if self.looks == moment:
                ask(number)
            pulse(files, newest, checkpoint)

        monkeypatch.setattr(run_module._Files, "pulse", asked)


def went(text: str) -> list[tuple[str, int]]:
    """What a run told of its interruptions, in order: ("kept" or "from", server version)."""
    found = re.findall(r"(written at|goes on from) server version (\d+)", text)
    return [("kept" if words == "written at" else "from", int(version)) for words, version in found]


def test_stopped_again_and_again_a_run_gives_the_same_bytes(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, chance, told = tiny(), random.Random(2), ""
    assert live(file, tmp_path / "undisturbed")
    folder, stops = tmp_path / "results", 0
    for _ in range(200):
        with monkeypatch.context() as patched:
            Asking(chance.randint(1, 40), patched, chance.choice([signal.SIGTERM, signal.SIGINT]))
            try:
                live(file, folder)
                break
            except Interrupted as interrupted:
                stops += 1
                told += f"{capsys.readouterr().err}{interrupted}\n"
        # Nothing is called running that is not.
        progress = read_progress(CELL.file(folder, ".progress.json"))
        assert progress is not None
        assert progress.state == "interrupted"
    told += capsys.readouterr().err
    assert stops >= 5
    steps = went(told)
    # A run goes on from exactly the version that was kept on the signal.
    kept = [version for what, version in steps if what == "kept"]
    assert kept == sorted(kept)
    for (what, version), (following, started) in pairwise(steps):
        if (what, following) == ("kept", "from"):
            assert started == version
    assert ("kept", "from") in {(one[0], other[0]) for one, other in pairwise(steps)}
    assert numbers(CELL.file(folder, ".h5")) == numbers(CELL.file(tmp_path / "undisturbed", ".h5"))
    assert [path.name for path in CELL.file(folder, ".h5").parent.iterdir()] == ["trial-0.h5"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, INTERRUPTED), (signal.SIGINT, 130)])
def test_the_exit_status_tells_the_signal(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    before = signal.getsignal(number)
    Asking(3, monkeypatch, number)
    with pytest.raises(Interrupted, match="a checkpoint was written at server version") as interrupted:
        live(tiny(), tmp_path)
    assert interrupted.value.status == status
    assert signal.getsignal(number) == before


def test_before_there_is_a_version_there_is_nothing_to_keep(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tiny()
    prepared = run_module.prepared_data

    def asked(*arguments: Any) -> Path | None:
        ask()
        return prepared(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "prepared_data", asked)
        with pytest.raises(Interrupted, match="interrupted before the federation began"):
            live(file, tmp_path)
    with monkeypatch.context() as patched:
        Asking(1, patched)
        with pytest.raises(Interrupted, match="there was nothing to keep"):
            live(file, tmp_path)
    assert not CELL.file(tmp_path, ".checkpoint").exists()
    assert live(file, tmp_path)


def test_a_result_that_is_being_written_appears(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(path: Path, record: Any) -> None:
        ask()
        write_run(path, record)
        ask()

    monkeypatch.setattr(run_module, "write_run", asked)
    assert live(tiny(), tmp_path)
    assert finished_digest(CELL.file(tmp_path, ".h5"))
    assert not CELL.file(tmp_path, ".progress.json").exists()


@pytest.mark.parametrize("again", [False, True])
def test_a_checkpoint_that_is_being_written_is_whole(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """The signal comes within a checkpoint, which is written to its end; with ``again``, within the one after too."""
    file, signals = tiny(), 0
    assert live(file, tmp_path / "undisturbed")

    def asked(path: Path, *rest: Any) -> None:
        nonlocal signals
        if signals <= again:
            signals += 1
            ask()
        save_checkpoint(path, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "save_checkpoint", asked)
        with pytest.raises(Interrupted, match="a checkpoint was written at server version"):
            live(file, tmp_path / "results", checkpoint_seconds=0)
    assert signals == 1 + again
    assert not list(tmp_path.glob("results/**/*.tmp.*"))
    assert live(file, tmp_path / "results")
    assert numbers(CELL.file(tmp_path / "results", ".h5")) == numbers(CELL.file(tmp_path / "undisturbed", ".h5"))


def long_run(settings: dict[str, Any]) -> None:
    settings["budget"] = {"client_updates": 3000}
    settings["evaluation"] = {"every": 1000}


def descendants(process: int) -> list[int]:
    return [found for child in children(process) for found in [child, *descendants(child)]]


def _learns(folder: Path, job: subprocess.Popen[bytes]) -> bool:
    """Whether the job itself has told of client updates, as it does every second."""
    told = read_progress(CELL.file(folder, ".progress.json"))
    return (
        told is not None
        and told.state == "running"
        and told.pid in {job.pid, *descendants(job.pid)}
        and told.client_updates > 0
    )


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_job_whose_every_process_is_asked_ends_with_a_checkpoint(tiny: Tiny, tmp_path: Path, ranks: int) -> None:
    """As Slurm asks: the launcher, its helpers and all ranks, at any moment, and twice."""
    file, folder, chance = tiny(long_run), tmp_path / "results", random.Random(ranks)
    undisturbed = mpi(ranks, run_command(file, CELL, tmp_path / "undisturbed"))
    assert undisturbed.returncode == 0, undisturbed.stderr
    launcher = [] if ranks == 1 else [mpiexec(), "-n", str(ranks)]
    cell = ["--algorithm", CELL.algorithm, "--scenario", CELL.scenario, "--trial", CELL.trial, "--output", folder]
    words = [*launcher, *command("run", file, *cell, "--checkpoint-seconds", NEVER)]
    log, statuses = tmp_path / "log", []

    def has_gone_on() -> bool:
        return ("kept", "from") in {(one[0], other[0]) for one, other in pairwise(went(log.read_text()))}

    while len(statuses) < 4 or not has_gone_on():
        assert len(statuses) < 20, log.read_text()
        with log.open("ab") as output:
            job = subprocess.Popen(
                words,
                stdout=output,
                stderr=output,
                env=os.environ | ONE_THREAD,
                preexec_fn=end_with_parent_only,
            )
        try:
            if len(statuses) % 2:  # once there is something to lose
                wait_until(lambda job=job: _learns(folder, job) or job.poll() is not None)
                time.sleep(chance.uniform(0, 0.3))
            else:
                time.sleep(chance.uniform(0.1, 1.0))
            everyone = [job.pid, *descendants(job.pid)]
            for _ in range(2):
                for process in everyone:
                    if is_alive(process):
                        os.kill(process, signal.SIGTERM)
                time.sleep(0.05)
            statuses.append(job.wait(60))
        finally:
            job.kill()
            job.wait()
        wait_until(lambda everyone=everyone: not any(map(is_alive, everyone)), 30)
        if not statuses[-1] and not has_gone_on():  # it was over before it could be asked: the next begins anew
            shutil.rmtree(folder)
    assert set(statuses) <= {0, INTERRUPTED}
    steps = went(log.read_text())
    for (what, version), (following, started) in pairwise(steps):
        assert (what, following) != ("kept", "from") or started == version
    done = mpi(ranks, run_command(file, CELL, folder))
    assert done.returncode == 0, done.stderr
    assert numbers(CELL.file(folder, ".h5")) == numbers(CELL.file(tmp_path / "undisturbed", ".h5"))
