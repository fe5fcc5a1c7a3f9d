"""Measured processes: started as a sweep starts its runs, so that the environment is that of real ranks."""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from workflow.apps import rank_environment
from workflow.bench.files import write_workload
from workflow.bench.measuring import Cell, Plan, RankReport, read_reports, write_plan
from workflow.bench.workloads import Sizes, Workload
from workflow.parent_death import end_with_parent
from workflow.sites import Site

_TAIL = 20


class MeasuringFailed(Exception):
    """A measured process ended without its figures; the argument tells which, and the end of what it printed."""


@dataclass(frozen=True)
class Bench:
    """Where and how much is measured: a ``folder`` of its own, the ``site`` whose launcher and environment are used,
    the workloads' ``sizes``, and how often each is repeated."""

    folder: Path
    site: Site
    sizes: Sizes
    repeats: int
    _numbers: "count[int]" = field(default_factory=count)

    def write(self, workload: Workload) -> tuple[Cell, ...]:
        """The workload's algorithms as cells of a plan, its files being written."""
        file = write_workload(workload, self.folder / f"workload-{next(self._numbers)}")
        return tuple(Cell(str(file), algorithm) for algorithm in workload.algorithms)

    def measure(
        self, cells: tuple[Cell, ...], ranks: int, *, repeats: int, warm_up: bool = False, bare: bool = False
    ) -> list[RankReport]:
        """Every rank's report of such a plan, rank 0 first. Raises MeasuringFailed where the job fails."""
        folder = self.folder / f"job-{next(self._numbers)}"
        folder.mkdir()
        plan = Plan(cells, repeats, self.site.step.given, warm_up, bare)
        command = [sys.executable, "-m", "workflow.bench.measuring", str(write_plan(plan, folder))]
        self.seconds(command, ranks)
        return read_reports(folder, ranks)

    def seconds(self, command: Sequence[str], ranks: int) -> float:
        """How long the command takes on so many ranks, from its start to its end. Raises MeasuringFailed where it
        fails."""
        launch = self.site.model_copy(update={"ranks_per_run": ranks}).launch()
        start = time.perf_counter()
        done = subprocess.run(
            [*launch, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=rank_environment(self.site, {}),
            preexec_fn=end_with_parent,
            check=False,
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            tail = "\n".join(done.stdout.splitlines()[-_TAIL:])
            raise MeasuringFailed(f"a measured process ended with status {done.returncode}; it printed last\n{tail}")
        return seconds
