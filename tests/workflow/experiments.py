"""Experiments small enough to run for real, and the command that runs them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np
import yaml

T = TypeVar("T")

SCENARIO = {
    "communication": {"distribution": "lognormal", "mu": 2.7, "sigma": 1.0},
    "per_example": {"distribution": "lognormal", "mu": -1.6, "sigma": 0.5},
    "overhead": {"distribution": "lognormal", "mu": 3.0, "sigma": 0.3},
}
SYNCHRONOUS = {"scheduler": "synchronous", "cohort": 4, "weighting": "uniform"}
BUFFERED = {"scheduler": "buffered", "buffer_size": 2, "concurrency": 4}
HOPELESS = {**SYNCHRONOUS, "deadline": 1e-9}
"""Nobody ever arrives in time, which the run finds out after 10,000 rounds."""


def schedules_only(**changes: Any) -> dict[str, Any]:
    """Two algorithms, one scenario, two trials; nothing is trained. All of it is the caller's own, to change."""
    content = {
        "trials": 2,
        "task": {"kind": "null", "clients": 20, "examples": 10},
        "client": {"batch_size": 5, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.1}},
        "server_optimizer": {"name": "sgd", "rate": 1.0},
        "algorithms": {"fedavg": SYNCHRONOUS, "fedbuff": BUFFERED},
        "scenarios": {"slow": SCENARIO},
        "budget": {"client_updates": 80},
        "evaluation": {"every": 20},
        **changes,
    }
    return deepcopy(content)


def digits(client_updates: int, **changes: Any) -> dict[str, Any]:
    """The handwritten digits on 20 clients, one trial."""
    return schedules_only(
        trials=1,
        task={
            "kind": "classification",
            "data": {"source": "digits", "held_out": 0.2},
            "partition": {"kind": "dirichlet", "clients": 20, "concentration": 0.5},
            "stragglers": {"classes": [0, 1], "clients": 5},
            "model": {"name": "mlp", "hidden": [64, 64]},
        },
        budget={"client_updates": client_updates},
        evaluation={"every": client_updates / 4},
        **changes,
    )


def write(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "workflow", *map(str, words)]


def fedhpc(*words: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The command, run to its end."""
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=240, env={**os.environ, **(environment or {})}
    )


def started(*words: object, log: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """The command, in the background; killed at the end of the block if it still runs."""
    return in_background(command(*words), log)


@contextmanager
def in_background(
    words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program, whose output goes to the log's end; killed at the end of the block if it still runs."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_until(condition: Callable[[], T], seconds: float = 90.0, told: Callable[[], str] = str) -> T:
    """The condition's value once it is true. Raises AssertionError with what is to be ``told`` where it is not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"it did not come true in {seconds} s\n{told()}")


def processes_of(folder: Path, *words: str) -> list[int]:
    """Live processes started for this results folder whose command line holds all these words."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"FEDHPC_SWEEP={folder}".encode() in environment and all(word in line for word in words):
            found.append(int(entry.name))
    return found


@contextmanager
def standing_still(processes: Iterable[int]) -> Iterator[None]:
    """Within, these do nothing, and so are not done before what is waited for has come."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def is_asked_to_end(process: int) -> bool:
    """Whether SIGTERM waits for a process that stands still, or has ended it: Slurm wakes those whom it asks."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return True
    if "State:\tZ" in status:
        return True
    waiting = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (signal.SIGTERM - 1) & 1 for mask in waiting)


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def parent(process: int) -> int:
    """The process that started it, -1 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def results(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.glob("*/*/trial-*.h5"))}


def numbers(path: Path) -> dict[str, bytes]:
    """Every numeric variable of a result, save those about wall time."""
    found: dict[str, bytes] = {}

    def keep(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and "wall" not in name and np.issubdtype(item.dtype, np.number):
            found[name] = np.asarray(item[()]).tobytes()

    with h5py.File(path, "r") as file:
        file.visititems(keep)
    assert found
    return found


def same_numbers(one: Path, other: Path) -> bool:
    """Whether two results folders hold the same runs with the same bytes in them."""
    first, second = results(one), results(other)
    return first.keys() == second.keys() and all(numbers(first[name]) == numbers(second[name]) for name in first)
