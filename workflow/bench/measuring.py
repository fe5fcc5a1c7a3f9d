"""The program that the measured ranks run: ``python -m workflow.bench.measuring PLAN``, alone or behind mpiexec.

It lives whole runs through, from settings to result file, and where the plan asks for it trains the same client
updates in a bare loop after each, in the same processes. Every rank writes what it saw beside the plan.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

from fedhpc.clients.steps.step_choice import StepWishes
from fedhpc.data.federated import open_prepared
from fedhpc.data.preparation import prepared_data
from fedhpc.experiment import Experiment, Run, load_experiment
from fedhpc.ranks.world import join_world, wait_for_all
from fedhpc.run import run
from fedhpc.task import Learning
from workflow.bench.workloads import SCENARIO

if TYPE_CHECKING:
    from mpi4py import MPI

    from workflow.bench.bare_loop import BareLoop


@dataclass(frozen=True)
class Cell:
    """A run to be measured: an experiment file, and one of its algorithms."""

    experiment: str
    algorithm: str


@dataclass(frozen=True)
class Plan:
    """What to measure: every cell in turn, ``repeats`` times over. ``step``: what the site wishes of clients' steps.
    ``warm_up``: all of it once before, unmeasured and for one server update only. ``bare``: after each run the bare
    loop."""

    cells: tuple[Cell, ...]
    repeats: int
    step: dict[str, Any]
    warm_up: bool = False
    bare: bool = False


@dataclass(frozen=True)
class Measurement:
    """One run of one cell as a rank saw it, in seconds: ``ours`` of the clock between two moments at which all ranks
    were there, ``processor`` of its own time within, ``bare`` of the clock for the bare loop.

    ``client_updates``, ``unique_clients`` and how a ``step`` was computed (None where nothing was trained) are those of
    the result.
    """

    ours: float
    processor: float
    bare: float | None
    client_updates: int
    unique_clients: int
    step: dict[str, Any] | None


@dataclass(frozen=True)
class RankReport:
    """All that a rank saw: its measurements by cell and repeat, and its memory in bytes: resident when its libraries
    were loaded, most that was resident ever, and private at the end (None where the kernel does not tell)."""

    cells: list[list[Measurement]]
    resident_before: int
    peak_resident: int
    private: int | None


def measure(plan: Plan) -> RankReport:
    """Carries the plan out on this rank. Results lie beside the experiments' files, and with them the prepared data
    and the choice of a step, which later runs find there: they are made once an experiment, and not measured."""
    world = join_world()
    measured = [_MeasuredCell(cell, plan, world) for cell in plan.cells]
    if any(cell.trains for cell in measured):
        # What a rank loads to train, so that no measured run pays for it, and its memory is known without the run's.
        import fedhpc.clients.local_training
        import fedhpc.ranks.pool  # noqa: F401
    resident_before = _kilobytes("status", "VmRSS")
    if plan.warm_up:
        for cell in measured:
            cell.warm_up()
    by_repeat = [[cell.measure() for cell in measured] for _ in range(plan.repeats)]
    private = [_kilobytes("smaps_rollup", name) for name in ("Private_Clean", "Private_Dirty")]
    return RankReport(
        [list(repeats) for repeats in zip(*by_repeat, strict=True)],
        1024 * (resident_before or 0),
        1024 * (_kilobytes("status", "VmHWM") or 0),
        None if None in private else 1024 * sum(filter(None, private)),
    )


class _MeasuredCell:
    def __init__(self, cell: Cell, plan: Plan, world: "MPI.Intracomm | None") -> None:
        file = Path(cell.experiment)
        self._experiment, self._folder = load_experiment(file), file.parent / "results"
        self._cell = Run(cell.algorithm, SCENARIO, 0)
        self._result = self._cell.file(self._folder, ".h5")
        self._step, self._world = StepWishes.model_validate(plan.step), world
        self._with_bare = plan.bare
        self._bare_loop: BareLoop | None = None

    @property
    def trains(self) -> bool:
        return isinstance(self._experiment.task, Learning)

    def warm_up(self) -> None:
        budget = self._experiment.budget.model_copy(update={"server_updates": 1})
        self._run(self._experiment.model_copy(update={"budget": budget}))
        if self._with_bare:
            self._bare().train(1)
        self._clear()

    def measure(self) -> Measurement:
        processor = time.process_time()
        ours = self._seconds(lambda: self._run(self._experiment))
        processor = time.process_time() - processor
        bare = self._seconds(self._bare().train) if self._with_bare else None
        with h5py.File(self._result, "r", locking=False) as result:
            counts = {name: int(result[name][-1]) for name in ("client_updates", "unique_clients")}
        step = self._step_taken() if self.trains else None
        self._clear()
        return Measurement(ours, processor, bare, step=step, **counts)

    def _step_taken(self) -> dict[str, Any]:
        with h5py.File(self._result, "r", locking=False) as result:
            step: dict[str, Any] = json.loads(result.attrs["step"])
        return step

    def _run(self, experiment: Experiment) -> None:
        run(experiment, self._cell, self._folder, lease=None, checkpoint_seconds=30, step=self._step)

    def _seconds(self, work: Callable[[], None]) -> float:
        wait_for_all(self._world)
        start = time.perf_counter()
        work()
        wait_for_all(self._world)
        return time.perf_counter() - start

    def _clear(self) -> None:
        """A result that is there would not be computed again."""
        wait_for_all(self._world)
        if self._world is None or self._world.rank == 0:
            self._result.unlink()
        wait_for_all(self._world)

    def _bare(self) -> "BareLoop":
        if self._bare_loop is None:
            from workflow.bench.bare_loop import BareLoop

            prepared = prepared_data(self._experiment, self._folder, self._cell.trial)
            assert prepared is not None
            rank, ranks = (self._world.rank, self._world.size) if self._world is not None else (0, 1)
            device = self._step_taken()["device"]
            self._bare_loop = BareLoop(self._experiment, self._cell, open_prepared(prepared), device, rank, ranks)
        return self._bare_loop


def _kilobytes(file: str, name: str) -> int | None:
    """A line of Linux's account of this process; None where there is none."""
    try:
        lines = Path(f"/proc/self/{file}").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)


def write_plan(plan: Plan, folder: Path) -> Path:
    """Writes a plan for ``main``."""
    path = folder / "plan.json"
    path.write_text(json.dumps(asdict(plan)))
    return path


def read_reports(folder: Path, ranks: int) -> list[RankReport]:
    """What every rank wrote, rank 0 first."""
    reports = []
    for rank in range(ranks):
        raw = json.loads((folder / f"rank-{rank}.json").read_text())
        raw["cells"] = [[Measurement(**measured) for measured in cell] for cell in raw["cells"]]
        reports.append(RankReport(**raw))
    return reports


def main(plan_file: Path) -> None:
    raw = json.loads(plan_file.read_text())
    plan = Plan(**{**raw, "cells": tuple(Cell(**cell) for cell in raw["cells"])})
    report = measure(plan)
    world = join_world()
    rank = 0 if world is None else world.rank
    (plan_file.parent / f"rank-{rank}.json").write_text(json.dumps(asdict(report)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
