"""What a finished sweep leaves to look at: the closing table, the picture, the papers' tables beside it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from fedhpc.analysis.clients_figure import clients_figure
from fedhpc.analysis.comparison import compare
from fedhpc.analysis.comparison_table import csv_comparisons, format_comparisons
from fedhpc.analysis.durations_figure import durations_figure
from fedhpc.analysis.figures import accuracy_figure
from fedhpc.analysis.resource_table import csv_resource_table, format_resource_table, resource_table
from fedhpc.analysis.resources_figure import resources_figure
from fedhpc.analysis.table import closing_table, csv_table, format_table
from fedhpc.analysis.target_table import Target, csv_target_table, format_target_table, target_table
from fedhpc.analysis.time_unit import time_unit
from fedhpc.published import Published, published_table
from fedhpc.store.reader import open_experiment
from fedhpc.store.replacing import replacing


def write_report(folder: Path, published: Sequence[Published] = (), target: Target | None = None) -> str:
    """Writes ``FOLDER/report/table.txt``, ``resources.txt`` (what the clients spent), ``clients.png``,
    ``durations.png`` where clients were heard, and ``accuracy.png`` and ``resources.png`` where something was learned;
    with ``published``, the experiment's, also ``comparison.txt``; with a target, ``target.txt``. Each table is there
    as ``.csv`` too.

    Returns the tables as text; that of the resources only where nothing was learned, of which they are all there is to
    tell. Raises FileNotFoundError where the folder holds no result, and
    NotMeasured where no run has the target's metric.
    """
    dataset = open_experiment(folder)
    tables = {**_tables(dataset, published, target), "resources": _resources(dataset, target)}
    for name, (text, comma_separated) in tables.items():
        _write(folder / "report" / f"{name}.txt", text)
        _write(folder / "report" / f"{name}.csv", comma_separated)
    if "total_accuracy" in dataset:
        accuracy_figure(dataset, folder / "report" / "accuracy.png")
        resources_figure(dataset, folder / "report" / "resources.png")
        del tables["resources"]
    clients_figure(dataset, folder / "report" / "clients.png")
    if np.isfinite(dataset["duration"].values).any():
        durations_figure(dataset, folder / "report" / "durations.png")
    return "\n".join(text for text, _ in tables.values())


def _tables(dataset: xr.Dataset, published: Sequence[Published], target: Target | None) -> dict[str, tuple[str, str]]:
    """File's stem -> a table as text and as comma-separated values."""
    rows, unit = closing_table(dataset), time_unit(dataset)
    tables = {"table": (format_table(rows, unit), csv_table(rows))}
    if target is not None:
        to_target = target_table(dataset, target)
        tables["target"] = format_target_table(to_target, target, unit), csv_target_table(to_target, target)
    if published:
        comparisons = [compare(dataset, block, published_table(block.table)) for block in published]
        tables["comparison"] = format_comparisons(comparisons), csv_comparisons(comparisons)
    return tables


def _resources(dataset: xr.Dataset, target: Target | None) -> tuple[str, str]:
    rows, units = resource_table(dataset, target), (time_unit(dataset, "resource_used"), time_unit(dataset))
    return format_resource_table(rows, target, *units), csv_resource_table(rows, target)


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
