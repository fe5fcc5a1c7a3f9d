"""The figures as a table for the terminal and as a JSON file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from fedhpc.mistakes import ExperimentError
from fedhpc.store.replacing import replacing, temporary_beside
from workflow.bench.figures import KEYS, Spread

_NO_FIGURES = ("step", "seconds")
"""What a workload's entry tells beside its figures."""


def write_report(report: dict[str, Any], file: Path) -> None:
    """Writes the JSON file, whole or not at all."""
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def refuse_unwritable(file: Path) -> None:
    """Raises ExperimentError where the file could not be written at the end."""
    if file.is_dir():
        raise ExperimentError(file, ["--json: this is a folder; name a file"])
    probe = temporary_beside(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            probe.write_bytes(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        # The folder's name may be a plain file's, for which Linux has an odd word.
        reason = f"{file.parent} is no folder" if isinstance(error, FileExistsError) else error.strerror
        raise ExperimentError(file, [f"--json: cannot be written: {reason}; name another file"]) from None


def table(workloads: dict[str, Any]) -> Table:
    """A row for every figure: its workload, its name, and its spread over the repeats."""
    result = Table(box=None, padding=(0, 1), show_edge=False)
    for column in ("workload", "figure"):
        result.add_column(column, no_wrap=True)
    for column in KEYS:
        result.add_column(column, justify="right", no_wrap=True)
    for workload, figures in workloads.items():
        for number, (name, values) in enumerate(_rows(figures)):
            cells = [_number(values[key]) if key in values else "" for key in KEYS]
            result.add_row("" if number else workload, name, *cells)
        result.add_section()
    return result


def _rows(figures: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Spread]]:
    """(name, spread) of every figure; a number that was taken once is a median alone."""
    for name, value in figures.items():
        if name in _NO_FIGURES:
            continue
        place = (*path, name)
        words = " ".join(place).replace("_", " ")
        if isinstance(value, dict) and set(value) == set(KEYS):
            yield words, value
        elif isinstance(value, dict):
            yield from _rows(value, place)
        elif isinstance(value, int | float):
            yield words, {"median": value}


def _number(value: float) -> str:
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
