"""Faults put into a sweep one after the other, each once its runs have come further, and what each of them cost."""

import contextlib
import json
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedhpc.store.progress import read_progress
from tests.slurm.sweeps import BUFFER_SIZE, CHECKPOINT_SECONDS, Sweep
from tests.workflow.experiments import standing_still, wait_until

_SECONDS_TO_COME_FURTHER = 150.0


@dataclass(frozen=True)
class Cost:
    """``seconds``: the work since the last checkpoint, of that of the runs ``hit`` which lost most."""

    fault: str
    hit: int
    seconds: float


class Campaign:
    """The faults of one sweep of buffered runs. A run may fall back to the last checkpoint before a fault, and no
    further: ``begun_anew`` names what did."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.folder = sweep, sweep.folder
        self.costs: list[Cost] = []
        self.begun_anew: list[str] = []
        self._moments = random.Random(0)
        self._pauses: list[tuple[float, float]] = []
        self._last_fault = 0.0
        self._kept: dict[str, int] = {}

    def with_news(self, previous: bool = False) -> set[str]:
        """The runs that wrote a checkpoint since the last fault, and maybe a ``previous`` one, at some moment before
        their next."""

        def found() -> set[str]:
            fresh = {run for run, path in self._checkpoints() if _time(path) > self._last_fault}
            older = {run for run in fresh if _time(self.folder / f"{run}.checkpoint.previous") > self._last_fault}
            return older if previous else fresh

        fresh = wait_until(found, _SECONDS_TO_COME_FURTHER, self.sweep.told)
        time.sleep(self._moments.uniform(0, CHECKPOINT_SECONDS))
        return fresh

    @contextlib.contextmanager
    def paused(self) -> Iterator[list[int]]:
        """Within, the ranks stand still, so that they are not done before what is waited for has come."""
        ranks, start = self.sweep.ranks(), time.time()
        try:
            with standing_still(ranks):
                yield ranks
        finally:
            self._pauses.append((start, time.time()))

    def kill(self, fault: str, hit: Iterable[str], act: Callable[[], object]) -> None:
        """A fault that comes without a word."""
        now, self._last_fault = time.time(), math.inf  # what is told meanwhile is of before or of after

        def worked_since(checkpoint: Path) -> float:
            since = _time(checkpoint)
            return now - since - sum(max(0.0, end - max(start, since)) for start, end in self._pauses)

        self._note(fault, hit, worked_since)
        act()
        self._last_fault = time.time()

    def ask(self, fault: str, hit: Iterable[str], act: Callable[[], object]) -> None:
        """A fault that SIGTERM announces; ``act`` returns when all that it ends has ended."""
        self._last_fault = math.inf
        act()
        self._note(fault, hit, self._told_since)
        self._last_fault = time.time()

    def corrupt_newest(self) -> None:
        """The newest checkpoint of every run is cut off, and the one before is what is kept."""
        for run, path in self._checkpoints():
            previous = path.with_name(f"{path.name}.previous")
            if not previous.exists():
                continue
            self.costs.append(Cost("a corrupt checkpoint", 1, _time(path) - _time(previous)))
            self._kept[run] = _version(previous)
            os.truncate(path, path.stat().st_size // 2)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Within, every progress that a rank tells of is compared with what was kept."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.1):
                self._look()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @property
    def runs(self) -> set[str]:
        """Those under way."""
        return {run for runs in self.sweep.nodes_with_runs().values() for run in runs}

    def _look(self) -> None:
        for run, kept in list(self._kept.items()):
            progress = read_progress(self.folder / f"{run}.progress.json")
            # What an attempt's worker writes, which names the log, is what the ranks before told; so is what
            # ranks write that were stopped before they had begun.
            if progress is None or progress.log is not None or progress.state != "running":
                continue
            if progress.updated_wall < self._last_fault:
                continue
            if progress.client_updates < kept * BUFFER_SIZE:
                self.begun_anew.append(f"{run}: {progress.client_updates} client updates, after {kept} versions")

    def _note(self, fault: str, hit: Iterable[str], lost: Callable[[Path], float]) -> None:
        of_runs = {run: path for run, path in self._checkpoints() if run in set(hit)}
        self._kept |= {run: _version(path) for run, path in of_runs.items()}
        self.costs.append(Cost(fault, len(of_runs), max(0.0, *map(lost, of_runs.values()), 0.0)))

    def _told_since(self, checkpoint: Path) -> float:
        """Seconds from a checkpoint to the last work that its run told of; none of a run that only went on from it."""
        progress = read_progress(checkpoint.with_name(checkpoint.name.partition(".")[0] + ".progress.json"))
        if progress is None or progress.log is not None:
            return 0.0
        if progress.client_updates <= _version(checkpoint) * BUFFER_SIZE:
            return 0.0
        return progress.updated_wall - _time(checkpoint)

    def _checkpoints(self) -> list[tuple[str, Path]]:
        """Of each unfinished run the newest that there is."""
        found: dict[str, Path] = {}
        for path in sorted(self.folder.glob("*/*/trial-*.checkpoint*"), key=lambda path: len(path.name)):
            if path.suffix in (".checkpoint", ".previous"):
                found.setdefault(str(path.relative_to(self.folder)).partition(".")[0], path)
        return list(found.items())


def table(costs: Iterable[Cost], lost: int) -> str:
    """The figures, for a person."""
    lines = ["| fault | runs hit | seconds of work lost |", "| --- | --- | --- |"]
    lines += [f"| {cost.fault} | {cost.hit} | {cost.seconds:.1f} |" for cost in costs]
    return "\n".join([*lines, f"{len(list(costs))} faults, {lost} runs lost"])


def _time(path: Path) -> float:
    """When it was written; long ago where it has been replaced since."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _version(checkpoint: Path) -> int:
    """The server version that a checkpoint keeps; of one that was replaced this instant, at least the first."""
    try:
        with np.load(checkpoint, allow_pickle=False) as arrays:
            return int(json.loads(arrays["rest"].tobytes())["version"])
    except FileNotFoundError:
        return 1
