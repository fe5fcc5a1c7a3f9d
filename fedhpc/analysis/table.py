"""The closing table: what each algorithm came to under each latency scenario."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from fedhpc.analysis.aligned import aligned
from fedhpc.analysis.reaching import at_evaluation, last_evaluation
from fedhpc.analysis.spread import Spread, spread
from fedhpc.analysis.time_unit import VIRTUAL_HOURS, TimeUnit

MEASURES = {"straggler_accuracy": "straggler accuracy %", "total_accuracy": "total accuracy %"}
"""Variables that the table shows at the last evaluation -> their headings."""


@dataclass(frozen=True)
class Row:
    """One algorithm under one scenario. ``measures`` are fractions, by the names in ``MEASURES``."""

    scenario: str
    algorithm: str
    measures: Mapping[str, Spread]
    virtual_hours: float
    finished: int
    trials: int


def closing_table(dataset: xr.Dataset) -> list[Row]:
    """Of an experiment (``open_experiment``): a row a scenario and algorithm, grouped by scenario, in the dataset's
    order. A measure that no run has (the null task's accuracies) is left out."""
    return [
        _row(dataset.sel(algorithm=algorithm, scenario=scenario), str(scenario), str(algorithm))
        for scenario in dataset["scenario"].values
        for algorithm in dataset["algorithm"].values
    ]


def format_table(rows: list[Row], unit: TimeUnit = VIRTUAL_HOURS) -> str:
    """Plain text: accuracies in percent as ``median [min, max]`` over trials, the median time in ``unit``, and trials
    as ``finished/planned`` where some are missing."""
    headings = ["scenario", "algorithm", *(MEASURES[name] for name in rows[0].measures), unit.name, "trials"]
    lines = [
        [
            row.scenario if index == 0 or rows[index - 1].scenario != row.scenario else "",
            row.algorithm,
            *(_percent(measure) for measure in row.measures.values()),
            "-" if np.isnan(row.virtual_hours) else unit.told(3600 * row.virtual_hours),
            f"{row.trials}" if row.finished == row.trials else f"{row.finished}/{row.trials}",
        ]
        for index, row in enumerate(rows)
    ]
    return aligned(headings, lines, names=2)


def csv_table(rows: list[Row]) -> str:
    """The same as comma-separated values; accuracies as fractions, empty where no trial is finished."""
    measures = [f"{name}_{value}" for name in rows[0].measures for value in ("median", "min", "max")]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["scenario", "algorithm", *measures, "virtual_hours_median", "trials_finished", "trials_planned"])
    for row in rows:
        spreads = [value for one in row.measures.values() for value in (one.median, one.low, one.high)]
        numbers = ["" if np.isnan(value) else value for value in (*spreads, row.virtual_hours)]
        table.writerow([row.scenario, row.algorithm, *numbers, row.finished, row.trials])
    return text.getvalue()


def _row(runs: xr.Dataset, scenario: str, algorithm: str) -> Row:
    # A run that was evaluated less often than others has its own last evaluation.
    last = last_evaluation(runs)
    finished = (last >= 0).values

    def at_the_end(values: xr.DataArray) -> Spread:
        return spread(at_evaluation(values, last).values[finished])

    return Row(
        scenario,
        algorithm,
        {name: at_the_end(runs[name]) for name in MEASURES if name in runs},
        at_the_end(runs["time"]).median / 3600,
        int(finished.sum()),
        finished.size,
    )


def _percent(measure: Spread) -> str:
    if np.isnan(measure.median):
        return "-"
    return f"{100 * measure.median:.1f} [{100 * measure.low:.1f}, {100 * measure.high:.1f}]"
