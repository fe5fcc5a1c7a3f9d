"""What algorithms took to reach a target, as FedBuff's Table 1 has it: client trips, and virtual time beside them."""

import csv
import io
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedhpc.analysis.aligned import Laid
from fedhpc.analysis.reaching import at_evaluation, last_evaluation, reaching
from fedhpc.analysis.time_unit import VIRTUAL_HOURS, TimeUnit
from fedhpc.published import Milestone


class Target(NamedTuple):
    """``metric`` at or above ``value``, which is a fraction where the metric is an accuracy."""

    metric: Milestone
    value: float

    def __str__(self) -> str:
        return f"{self.metric} {self.value:g}"


@dataclass(frozen=True)
class TargetCount:
    """Over the finished trials, of which those that never reached the target count as infinitely many: ``median`` may
    be infinite. ``spent`` is the median of what the trials came to at their ends, reached or not. NaN without trials.
    """

    median: float
    spent: float


@dataclass(frozen=True)
class TargetRow:
    """One algorithm under one scenario; ``virtual_hours`` as ``client_trips``. Counts of trials."""

    scenario: str
    algorithm: str
    client_trips: TargetCount
    virtual_hours: TargetCount
    reached: int
    finished: int
    trials: int


def target_table(dataset: xr.Dataset, target: Target) -> list[TargetRow]:
    """Of an experiment (``open_experiment``): a row a scenario and algorithm, in the dataset's order.

    Raises NotMeasured where no run has the metric.
    """
    to_target = reaching(dataset, target.metric, target.value).transpose("algorithm", "scenario", "trial")
    last = last_evaluation(dataset)
    ends = {
        name: at_evaluation(dataset[name], last).transpose("algorithm", "scenario", "trial").values
        for name in ("time", "client_trips")
    }
    rows = []
    for s, scenario in enumerate(dataset["scenario"].values):
        for a, algorithm in enumerate(dataset["algorithm"].values):
            finished = np.isfinite(ends["time"][a, s])
            trips, seconds = (to_target[name].values[a, s][finished] for name in ("client_trips", "time"))
            rows.append(
                TargetRow(
                    str(scenario),
                    str(algorithm),
                    _count(trips, ends["client_trips"][a, s][finished]),
                    _count(seconds / 3600, ends["time"][a, s][finished] / 3600),
                    int(np.isfinite(trips).sum()),
                    int(finished.sum()),
                    finished.size,
                )
            )
    return rows


def target_laid(rows: list[TargetRow], target: Target, unit: TimeUnit = VIRTUAL_HOURS) -> Laid:
    """As words: medians over trials, ``> what was spent`` where half of them or more never got there, and how many of
    the finished trials did. Times are in ``unit``."""
    headings = ["scenario", "algorithm", f"client trips to {target}", unit.name, "reached"]
    lines = [
        [
            row.scenario if index == 0 or rows[index - 1].scenario != row.scenario else "",
            row.algorithm,
            _told(row.client_trips, ",.0f"),
            time_told(row.virtual_hours, unit),
            f"{row.reached}/{row.finished}",
        ]
        for index, row in enumerate(rows)
    ]
    return Laid(headings, lines, names=2)


def csv_target_table(rows: list[TargetRow], target: Target) -> str:
    """The same as comma-separated values; a median is empty where it was not reached."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    medians = ["client_trips_median", "virtual_hours_median", "client_trips_spent", "virtual_hours_spent"]
    trials = ["trials_reached", "trials_finished", "trials_planned"]
    table.writerow(["scenario", "algorithm", "metric", "target", *medians, *trials])
    for row in rows:
        counts = row.client_trips, row.virtual_hours
        numbers = [*(count.median for count in counts), *(count.spent for count in counts)]
        told = [number if np.isfinite(number) else "" for number in numbers]
        table.writerow([row.scenario, row.algorithm, *target, *told, row.reached, row.finished, row.trials])
    return text.getvalue()


def _count(to_target: NDArray[np.float64], spent: NDArray[np.float64]) -> TargetCount:
    if not spent.size:
        return TargetCount(np.nan, np.nan)
    return TargetCount(float(np.median(np.where(np.isnan(to_target), np.inf, to_target))), float(np.median(spent)))


def _told(count: TargetCount, form: str) -> str:
    if np.isnan(count.median):
        return "-"
    return f"> {count.spent:{form}}" if np.isinf(count.median) else f"{count.median:{form}}"


def time_told(count: TargetCount, unit: TimeUnit) -> str:
    """A count of hours in the unit, ``> what was spent`` where the target was not reached, ``-`` without trials."""
    if np.isnan(count.median):
        return "-"
    median, spent = 3600 * count.median, 3600 * count.spent
    shorter = min(median, spent)
    return f"> {unit.told(spent, shorter)}" if np.isinf(median) else unit.told(median, shorter)
