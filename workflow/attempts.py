"""When and where each attempt at a run was made: what a sweep cost beyond the runs themselves, and what faults cost.

Each run's attempts stand in a file of its own beside its log, one line of JSON each, so that no two nodes write to one.
"""

import json
import socket
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from fedhpc.experiment import Run
from fedhpc.store.run_file import wall_seconds
from workflow.placement import Placement

Outcome = Literal["finished", "failed", "interrupted"]


@dataclass(frozen=True)
class Attempt:
    """One MPI job of a run, in Unix seconds, from before its ranks were started until they were gone. ``nodes``, their
    ``cores`` and ``gpus`` are those that it had alone: cores and GPUs as the node counts them, none where nothing is
    divided."""

    nodes: list[str]
    cores: list[int]
    gpus: list[str]
    began_wall: float
    ended_wall: float
    outcome: Outcome


@dataclass(frozen=True)
class Overhead:
    """Of the runs that one sweep finished in one attempt. ``own_seconds``: the federations alone, as their results
    say, of all runs together; ``beyond_seconds``: what an attempt takes longer, the median over runs."""

    runs: int
    own_seconds: float
    beyond_seconds: float


def attempts_file(folder: Path, run: Run) -> Path:
    """Where a run's attempts stand."""
    return run.file(folder / "logs", ".attempts.jsonl")


@contextmanager
def attempted(file: Path, placement: Placement, interruption: type[BaseException]) -> Iterator[None]:
    """Notes the attempt that the block makes, and how it ended. One that is killed is not noted."""
    began = time.time()
    outcome: Outcome = "failed"
    try:
        yield
        outcome = "finished"
    except interruption:
        outcome = "interrupted"
        raise
    finally:
        nodes = list(placement.nodes) or [socket.gethostname()]
        attempt = Attempt(nodes, list(placement.cores), list(placement.gpus), began, time.time(), outcome)
        # A full disk is told by what cannot do without it.
        with suppress(OSError), file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(attempt)) + "\n")


def read_attempts(file: Path) -> list[Attempt]:
    """A run's attempts in their order; what cannot be read is left out."""
    found = []
    with suppress(OSError):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError):
                found.append(Attempt(**json.loads(line)))
    return found


def overhead(folder: Path, runs: Iterable[Run], since: float) -> Overhead | None:
    """Of those of the runs that were begun and finished since then (Unix seconds); None where there is none."""
    own, beyond = [], []
    for run in runs:
        attempts = [each for each in read_attempts(attempts_file(folder, run)) if each.began_wall >= since]
        if len(attempts) != 1 or attempts[0].outcome != "finished":
            continue
        seconds = wall_seconds(run.file(folder, ".h5"))
        own.append(seconds)
        beyond.append(attempts[0].ended_wall - attempts[0].began_wall - seconds)
    return Overhead(len(own), sum(own), statistics.median(beyond)) if own else None


def in_words(found: Overhead, places: int | None, seconds: float) -> str:
    """For a person. ``places``: runs at a time, None where that is not known; ``seconds``: from the sweep's start to
    its end."""
    each = found.own_seconds / found.runs
    runs = "1 run" if found.runs == 1 else f"{found.runs} runs"
    line = f"{runs} took {each:.1f} s each, and {found.beyond_seconds:.1f} s to start and end"
    if places is None:
        return line
    busy = 100 * found.own_seconds / (places * seconds)
    there = "1 place" if places == 1 else f"{places} places"
    return f"{line}; the federations filled {busy:.0f} % of {there} in {seconds:.0f} s"
