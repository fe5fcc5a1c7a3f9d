"""The closing table: what each algorithm came to under each latency scenario."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from fedhpc.analysis.aligned import Laid
from fedhpc.analysis.measures import MEASURES, measured
from fedhpc.analysis.reaching import at_evaluation, last_evaluation
from fedhpc.analysis.spread import Spread, kind_of, kinds_of, spread
from fedhpc.analysis.time_unit import VIRTUAL_HOURS, TimeUnit


@dataclass(frozen=True)
class Row:
    """One algorithm under one scenario. ``measures`` are in the dataset's units (fractions, but for perplexity),
    by the names in ``MEASURES``. ``diverged``: trials whose last loss is no finite number; the accuracies of such a
    model are those of the class that ``argmax`` falls on."""

    scenario: str
    algorithm: str
    measures: Mapping[str, Spread]
    virtual_hours: float
    diverged: int
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
    """Plain text of ``table_laid``, and which spread its brackets hold."""
    return f"{table_laid(rows, unit)}{table_note(rows)}"


def table_note(rows: list[Row]) -> str:
    """Lines that say what stands in brackets, and whose accuracies mean nothing; empty where nothing is measured."""
    if not rows[0].measures:
        return ""
    trials = [row.finished for row in rows if row.finished > 1]
    lines = [
        f"Medians at the ends of the runs; in brackets {kinds_of(trials)}."
        if trials
        else "Where the runs end; of one trial each, so that there is no range."
    ]
    lines += [
        f"{row.algorithm} diverged under {row.scenario} in {row.diverged} of {row.finished} trials (a loss that is no "
        "finite number): their accuracies mean nothing."
        for row in rows
        if row.diverged
    ]
    return "".join(f"{line}\n" for line in lines)


def table_laid(rows: list[Row], unit: TimeUnit = VIRTUAL_HOURS) -> Laid:
    """Accuracies in percent as ``median [low, high]`` over trials, without brackets where there is one trial; the
    median time in ``unit``; and trials as ``finished/planned`` where some are missing."""
    headings = ["scenario", "algorithm", *(MEASURES[name].label for name in rows[0].measures), unit.name, "trials"]
    lines = [
        [
            row.scenario if index == 0 or rows[index - 1].scenario != row.scenario else "",
            row.algorithm,
            *(_told(MEASURES[name].factor, one, row.finished) for name, one in row.measures.items()),
            "-" if np.isnan(row.virtual_hours) else unit.told(3600 * row.virtual_hours),
            f"{row.trials}" if row.finished == row.trials else f"{row.finished}/{row.trials}",
        ]
        for index, row in enumerate(rows)
    ]
    return Laid(headings, lines, names=2)


def csv_table(rows: list[Row]) -> str:
    """The same as comma-separated values; accuracies as fractions, empty where no trial is finished. ``interval`` says
    what ``low`` and ``high`` are."""
    measures = [f"{name}_{value}" for name in rows[0].measures for value in ("median", "low", "high")]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(
        ["scenario", "algorithm", *measures, "virtual_hours_median", "interval", "trials_finished", "trials_planned"]
    )
    for row in rows:
        spreads = [value for one in row.measures.values() for value in (one.median, one.low, one.high)]
        numbers = ["" if np.isnan(value) else value for value in (*spreads, row.virtual_hours)]
        table.writerow([row.scenario, row.algorithm, *numbers, kind_of(row.finished), row.finished, row.trials])
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
        {name: at_the_end(runs[name]) for name in measured(runs)},
        at_the_end(runs["time"]).median / 3600,
        _diverged(runs, last) if "loss" in runs else 0,
        int(finished.sum()),
        finished.size,
    )


def _diverged(runs: xr.Dataset, last: xr.DataArray) -> int:
    return int((~np.isfinite(at_evaluation(runs["loss"], last)) & (last >= 0)).sum())


def _told(factor: float, measure: Spread, trials: int) -> str:
    if np.isnan(measure.median):
        return "-"
    if trials == 1:  # which has no range
        return f"{factor * measure.median:.1f}"
    return f"{factor * measure.median:.1f} [{factor * measure.low:.1f}, {factor * measure.high:.1f}]"
