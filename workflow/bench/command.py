"""``fedhpc bench`` from its words to its file."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from fedhpc.mistakes import ExperimentError
from workflow.bench.jobs import Bench
from workflow.bench.machine import machine
from workflow.bench.report import refuse_unwritable, table, write_report
from workflow.bench.suite import WORKLOADS
from workflow.bench.workloads import Sizes
from workflow.results_folder import unknown_name
from workflow.sites import Site


def run_bench(file: Path, names: Sequence[str], repeats: int, sizes: Sizes, site: Site, console: Console) -> None:
    """Measures the named workloads, or all where none is named, prints their figures and writes them to ``file``.

    Raises ExperimentError, before anything is measured, where a name is unknown, the file cannot be written or the
    site cannot start ranks; MeasuringFailed where a measured process fails.
    """
    mistakes = [unknown_name("--workloads", name, WORKLOADS) for name in names if name not in WORKLOADS]
    if mistakes:
        raise ExperimentError(Path("fedhpc bench"), mistakes)
    refuse_unwritable(file)
    site.launch()
    chosen = [name for name in WORKLOADS if name in names or not names]
    figures: dict[str, Any] = {}
    with TemporaryDirectory(prefix="fedhpc-bench-") as scratch:
        bench = Bench(Path(scratch), site, sizes, repeats)
        for number, name in enumerate(chosen, 1):
            console.print(f"[{number}/{len(chosen)}] measuring {name} ...", markup=False, highlight=False)
            figures[name] = WORKLOADS[name](bench)
    write_report({"machine": machine(), "repeats": repeats, "workloads": figures}, file)
    console.print(table(figures))
    console.print(f"Figures: {file}", markup=False, highlight=False, soft_wrap=True)
