"""The workloads by name, and how each is measured."""

import json
import sys
from collections.abc import Callable
from typing import Any

from workflow.bench import workloads
from workflow.bench.figures import against_bare_loop, of_scaling, of_the_slowest, of_waiting, spread
from workflow.bench.jobs import Bench
from workflow.bench.measuring import Measurement
from workflow.bench.workloads import IMAGE_SHAPE, PARAMETERS, SCENARIO, Sizes, Workload

Figures = dict[str, Any]

_RANKS = 2


def against_bare(make: Callable[[Sizes], Workload]) -> Callable[[Bench], Figures]:
    """Whole runs and the bare loop in turn, in the same two ranks."""

    def measure(bench: Bench) -> Figures:
        cells = bench.write(make(bench.sizes))
        report, *_ = bench.measure(cells, _RANKS, repeats=bench.repeats, warm_up=True, bare=True)
        return against_bare_loop(report.cells[0])

    return measure


def null_engine(bench: Bench) -> Figures:
    """Whole runs of schedules alone, in one process."""
    workload = workloads.schedules(bench.sizes)
    (report,) = bench.measure(bench.write(workload), 1, repeats=bench.repeats)
    return of_the_slowest(dict(zip(workload.algorithms, report.cells, strict=True)))


def week(bench: Bench) -> Figures:
    """Whole runs of schedules among a million learners, one after another in one process, once."""
    workload = workloads.week(bench.sizes)
    (report,) = bench.measure(bench.write(workload), 1, repeats=1)
    runs = zip(workload.algorithms, report.cells, strict=True)
    figures: Figures = {name: {"run_s": run.ours, "processor_s": run.processor} for name, (run,) in runs}
    return figures | {"peak_resident_bytes": report.peak_resident}


def scaling(bench: Bench) -> Figures:
    """A on one rank and on two, in turn; each run in processes of its own."""
    cells = bench.write(workloads.emnist(bench.sizes, "fp32"))
    measured: dict[int, list[Measurement]] = {1: [], _RANKS: []}
    for _ in range(bench.repeats):
        for ranks, measurements in measured.items():
            measurements += bench.measure(cells, ranks, repeats=1, warm_up=True)[0].cells[0]
    return of_scaling(measured[1], measured[_RANKS])


def start_up(bench: Bench) -> Figures:
    """Whole commands, from their start to their end."""
    (cell,) = bench.write(workloads.tiny())
    command = [sys.executable, "-m", "workflow"]
    run, helping = [], []
    for repeat in range(bench.repeats):
        output = bench.folder / f"start-up-{repeat}"
        words = ["run", cell.experiment, "--algorithm", cell.algorithm, "--scenario", SCENARIO, "--trial", "0"]
        words += ["--step", json.dumps(bench.site.step.given)]
        run.append(bench.seconds([*command, *words, "--output", str(output)], _RANKS))
        helping.append(bench.seconds([*command, "--help"], 1))
    return {"run_s": spread(run), "help_s": spread(helping)}


def idle(bench: Bench) -> Figures:
    """What rank 0 costs while it waits: the processor time that more rounds of waiting add to a run, over the time on
    the clock that they add, so that the run's start and end cancel."""
    rounds = bench.sizes.rounds_waiting
    short, long = (bench.write(workloads.waiting(bench.sizes, number)) for number in (1, 1 + rounds))
    report, *_ = bench.measure((*short, *long), _RANKS, repeats=bench.repeats, warm_up=True)
    return of_waiting(*report.cells)


def memory(bench: Bench) -> Figures:
    """What each rank of one run of A holds, beside what it cannot do without."""
    workload = workloads.emnist(bench.sizes, "fp32")
    cells = bench.write(workload)
    # The first prepares the data and chooses the step, as the first run of a sweep does.
    for _ in range(2):
        reports = bench.measure(cells, _RANKS, repeats=1)
    images, trained = workload.images, reports[0].cells[0][0].unique_clients
    assert images is not None
    example = 4 * IMAGE_SHAPE[0] * IMAGE_SHAPE[1] + 8  # float32 pixels, int64 label
    figures: Figures = {
        f"rank_{number}": {
            "peak_resident_bytes": report.peak_resident,
            "resident_before_the_run_bytes": report.resident_before,
            "private_bytes": report.private,
        }
        for number, report in enumerate(reports)
    }
    data, model = (trained * images.examples + images.held_out) * example, 4 * PARAMETERS["emnist_cnn"]
    return figures | {"data_touched_bytes": data, "four_models_bytes": 4 * model}


def steps(bench: Bench) -> Figures:
    """Every way to compute a step, one by one, on one rank."""
    file = bench.folder / "steps.json"
    bench.seconds([sys.executable, "-m", "workflow.bench.steps", str(file), str(bench.sizes.of(100))], 1)
    found: Figures = json.loads(file.read_text())
    return found


def coresets(bench: Bench) -> Figures:
    """Building coresets, on one rank."""
    file = bench.folder / "coresets.json"
    bench.seconds([sys.executable, "-m", "workflow.bench.coresets", str(file), str(bench.sizes.of(5000))], 1)
    found: Figures = json.loads(file.read_text())
    return found


WORKLOADS: dict[str, Callable[[Bench], Figures]] = {
    "A_fp32": against_bare(lambda sizes: workloads.emnist(sizes, "fp32")),
    "A_bf16": against_bare(lambda sizes: workloads.emnist(sizes, "bf16")),
    "B": against_bare(lambda sizes: workloads.synthetic(sizes, {"steps": 40})),
    "B_ragged": against_bare(lambda sizes: workloads.synthetic(sizes, {"epochs": 1})),
    "C": against_bare(lambda sizes: workloads.mnist(sizes, 50)),
    "C_5": against_bare(lambda sizes: workloads.mnist(sizes, 5)),
    "null_engine": null_engine,
    "week": week,
    "scaling": scaling,
    "start_up": start_up,
    "idle": idle,
    "memory": memory,
    "steps": steps,
    "coresets": coresets,
}
"""Name -> what measures it."""
