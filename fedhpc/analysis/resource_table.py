"""What learning cost the clients, as RELAY's section 5.2 counts it: the time that all clients spent, and how much of
it came to nothing."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from fedhpc.analysis.aligned import Laid
from fedhpc.analysis.reaching import at_evaluation, at_the_end, first_evaluation, last_evaluation
from fedhpc.analysis.resources import COUNTED, wasted_share
from fedhpc.analysis.target_table import Target, TargetCount, time_told
from fedhpc.analysis.time_unit import VIRTUAL_HOURS, TimeUnit


@dataclass(frozen=True)
class ToTarget:
    """What it took until a target was reached: the clients' time and time, and how many trials got there."""

    used_hours: TargetCount
    hours: TargetCount
    reached: int


@dataclass(frozen=True)
class ResourceRow:
    """One algorithm under one scenario where its runs end: medians over the finished trials, NaN where there are none.

    ``wasted_share`` is a fraction, and so is ``total_accuracy``, which is None where nothing is trained.
    ``unique_clients`` had an update used. ``to_target`` is None where there is no target.
    """

    scenario: str
    algorithm: str
    used_hours: float
    wasted_hours: float
    wasted_share: float
    unique_clients: float
    total_accuracy: float | None
    to_target: ToTarget | None
    finished: int
    trials: int


def resource_table(dataset: xr.Dataset, target: Target | None = None) -> list[ResourceRow]:
    """Of an experiment (``open_experiment``): a row a scenario and algorithm, in the dataset's order. Of trials that
    never reach the target, what it took is infinite.

    Raises NotMeasured where no run has the target's metric.
    """
    last = last_evaluation(dataset)
    finished = last >= 0
    ends = at_the_end(dataset)
    ends = ends.assign(time=at_evaluation(dataset["time"], last), wasted_share=wasted_share(ends))
    names = ("resource_used", "resource_wasted", "wasted_share", "unique_clients", "time", "total_accuracy")
    medians = {name: _median(ends[name]) for name in names if name in ends}
    if target is not None:
        first = first_evaluation(dataset, target.metric, target.value)
        took = {name: at_evaluation(dataset[name], first) for name in ("resource_used", "time")}
        to_target = {name: _median(values.fillna(np.inf).where(finished)) for name, values in took.items()}
        reached = (first >= 0).sum("trial")
    rows = []
    for scenario in dataset["scenario"].values:
        for algorithm in dataset["algorithm"].values:
            cell = {"scenario": scenario, "algorithm": algorithm}
            at_end = {name: float(values.sel(cell)) for name, values in medians.items()}
            took_of_cell = None
            if target is not None:
                used, time = (
                    TargetCount(float(to_target[name].sel(cell)) / 3600, at_end[name] / 3600)
                    for name in ("resource_used", "time")
                )
                took_of_cell = ToTarget(used, time, int(reached.sel(cell)))
            rows.append(
                ResourceRow(
                    str(scenario),
                    str(algorithm),
                    at_end["resource_used"] / 3600,
                    at_end["resource_wasted"] / 3600,
                    at_end["wasted_share"],
                    at_end["unique_clients"],
                    at_end.get("total_accuracy"),
                    took_of_cell,
                    int(finished.sel(cell).sum()),
                    finished.sizes["trial"],
                )
            )
    return rows


def resource_laid(
    rows: Sequence[ResourceRow],
    target: Target | None = None,
    client_unit: TimeUnit = VIRTUAL_HOURS,
    unit: TimeUnit = VIRTUAL_HOURS,
) -> Laid:
    """As words: the clients' time in ``client_unit``, and time in ``unit``. With a target, ``> what was spent``
    stands where half of the trials or more never got there."""
    headings = ["scenario", "algorithm", f"client time used ({client_unit.name})", "wasted", "wasted %"]
    headings.append("clients heard")
    has_accuracy = rows[0].total_accuracy is not None
    headings += ["total accuracy %"] if has_accuracy else []
    headings += [f"used to {target}", f"{unit.name} to it", "reached"] if target else []
    lines = []
    for index, row in enumerate(rows):
        first = index == 0 or rows[index - 1].scenario != row.scenario
        line = [row.scenario if first else "", row.algorithm]
        line += [_told(3600 * hours, client_unit) for hours in (row.used_hours, row.wasted_hours)]
        line += [_number(100 * row.wasted_share, ".1f"), _number(row.unique_clients, ",.0f")]
        if row.total_accuracy is not None:
            line.append(_number(100 * row.total_accuracy, ".1f"))
        if row.to_target is not None:
            line += [time_told(row.to_target.used_hours, client_unit), time_told(row.to_target.hours, unit)]
            line.append(f"{row.to_target.reached}/{row.finished}")
        line.append(f"{row.trials}" if row.finished == row.trials else f"{row.finished}/{row.trials}")
        lines.append(line)
    return Laid([*headings, "trials"], lines, names=2)


def resource_note(dataset: xr.Dataset) -> str:
    """What the columns count, and that nothing was wasted in any trial where that is so: why there is no figure of
    it."""
    nothing = "Nothing was wasted: every update that came in was used. "
    return f"{'' if (dataset['resource_wasted'] > 0).any() else nothing}{COUNTED}\n"


def csv_resource_table(rows: Sequence[ResourceRow], target: Target | None = None) -> str:
    """The same as comma-separated values: shares and accuracies as fractions, empty where there is no such figure."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    headings = ["scenario", "algorithm", "used_client_hours", "wasted_client_hours", "wasted_share", "unique_clients"]
    to_target = ["metric", "target", "used_client_hours_to_target", "virtual_hours_to_target", "trials_reached"]
    headings += ["total_accuracy", *(to_target if target else [])]
    table.writerow([*headings, "trials_finished", "trials_planned"])
    for row in rows:
        figures = [row.used_hours, row.wasted_hours, row.wasted_share, row.unique_clients, row.total_accuracy]
        line = [row.scenario, row.algorithm, *map(_cell, figures)]
        if target is not None and row.to_target is not None:
            took = row.to_target.used_hours.median, row.to_target.hours.median
            line += [*target, *map(_cell, took), row.to_target.reached]
        table.writerow([*line, row.finished, row.trials])
    return text.getvalue()


def _median(values: xr.DataArray) -> xr.DataArray:
    """Over trials, of those that are there."""
    trials = values.transpose("trial", ...).values.astype(np.float64)
    there = ~np.isnan(trials).all(axis=0)
    middle = np.full(there.shape, np.nan)
    middle[there] = np.nanmedian(trials[:, there], axis=0)
    return values.isel(trial=0, drop=True).copy(data=middle)


def _told(seconds: float, unit: TimeUnit) -> str:
    return "-" if np.isnan(seconds) else unit.told(seconds)


def _number(value: float, form: str) -> str:
    return "-" if np.isnan(value) else f"{value:{form}}"


def _cell(value: float | None) -> float | str:
    return "" if value is None or not np.isfinite(value) else value
