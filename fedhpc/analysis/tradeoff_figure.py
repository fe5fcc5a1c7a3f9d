"""Straggler against total accuracy: who pays for whom (Hard et al., section 5)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.lines import cells
from fedhpc.analysis.panels import (
    COLOURS,
    MARKERS,
    dress,
    is_left,
    is_lowest,
    legend,
    legend_height,
    scenario_panels,
)
from fedhpc.analysis.reaching import at_the_end
from fedhpc.analysis.spread import Spread, spread
from fedhpc.published import Published, published_table

_MEASURES = ("total_accuracy", "straggler_accuracy")


def tradeoff_drawing(dataset: xr.Dataset, published: Sequence[Published] = ()) -> Drawing | None:
    """Of an experiment (``open_experiment``): a panel a scenario, a mark an algorithm, at the medians over trials of
    both accuracies where its runs end, in percent, with their intervals; hollow marks where a ``published`` table has
    both. None where there are not both accuracies."""
    if any(name not in dataset for name in _MEASURES):
        return None
    scenarios, algorithms = ([str(name) for name in dataset[axis].values] for axis in ("scenario", "algorithm"))
    figure, panels = scenario_panels(scenarios, 3.1, legend_height(algorithms), sharex=True)
    panel_of = dict(zip(scenarios, panels, strict=True))
    rows: list[dict[str, object]] = []
    papers = _published(published)
    for scenario, algorithm, number, runs in cells(at_the_end(dataset)):
        finished = runs[_MEASURES[0]].notnull().values
        total, straggler = (_percent(runs[name].values[finished]) for name in _MEASURES)
        paper = papers.get((scenario, algorithm), (np.nan, np.nan))
        rows.append(
            {
                "scenario": scenario,
                "algorithm": algorithm,
                **_cells("total_accuracy", total),
                **_cells("straggler_accuracy", straggler),
                "trials": int(finished.sum()),
                "published_total_accuracy": paper[0],
                "published_straggler_accuracy": paper[1],
            }
        )
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        if finished.any():
            panel_of[scenario].errorbar(
                total.median,
                straggler.median,
                xerr=_arms(total),
                yerr=_arms(straggler),
                label=algorithm,
                linestyle="none",
                elinewidth=1.2,
                markersize=7,
                **style,
            )
        if np.isfinite(paper).all():
            panel_of[scenario].plot(*paper, linestyle="none", markersize=8, markerfacecolor="none", **style)
    for number, panel in enumerate(panels):
        dress(panel)
        if is_left(number, len(panels)):
            panel.set_ylabel("straggler accuracy (%)")
        if is_lowest(number, len(panels)):
            panel.set_xlabel("total accuracy (%)")
    legend(figure, algorithms)
    hollow = " Hollow marks are the papers' values." if papers else ""
    return Drawing(
        "tradeoff",
        "Straggler against total accuracy",
        "To the right is better for all clients together, upwards better for the stragglers' classes; bars are "
        f"the 90 % interval over ten or more trials and the range of fewer.{hollow}",
        "A mark for each algorithm at its total and its straggler accuracy, in a panel for each scenario.",
        figure,
        rows,
    )


def _percent(values: np.ndarray) -> Spread:
    return spread(100 * values)


def _arms(one: Spread) -> list[list[float]]:
    return [[one.median - one.low], [one.high - one.median]]


def _cells(name: str, one: Spread) -> dict[str, object]:
    return {f"{name}_percent": one.median, f"{name}_low": one.low, f"{name}_high": one.high}


def _published(published: Sequence[Published]) -> dict[tuple[str, str], tuple[float, float]]:
    """(scenario, algorithm) -> the papers' total and straggler accuracy in percent, of tables on where runs end."""
    found = {}
    for block in published:
        table = published_table(block.table)
        if block.at is not None or any(name not in table.columns for name in _MEASURES):
            continue
        for algorithm, row in block.rows.items():
            figures = [table.figure(row, name) for name in _MEASURES]
            if None not in figures:
                factors = (100 * table.columns[name].factor for name in _MEASURES)
                total, straggler = (f * float(figure or 0) for f, figure in zip(factors, figures, strict=True))
                found[block.scenario, algorithm] = total, straggler
    return found
