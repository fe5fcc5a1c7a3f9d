"""Accuracy over virtual time: which algorithm learns from stragglers, and how soon."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from fedhpc.analysis.time_unit import TimeUnit, time_unit
from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROWS = {"straggler_accuracy": "straggler accuracy (%)", "total_accuracy": "total accuracy (%)"}

# Okabe and Ito's colours, which the colour-blind tell apart, less the yellow that white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":", "-.")

_LEGEND_COLUMNS = 4


def accuracy_figure(dataset: xr.Dataset, path: Path) -> None:
    """Draws an experiment (``open_experiment``) as a PNG: a column a scenario, a row an accuracy, a line an algorithm.

    A line goes through the medians over trials, of time and of accuracy, at each evaluation that all trials
    have; the band is the range over trials. Raises ValueError where no run has an accuracy.
    """
    figure = drawn(dataset)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def drawn(dataset: xr.Dataset) -> "Figure":
    """``accuracy_figure`` before it is written, for a notebook to show or change."""
    # Not pyplot: it would look for a display and keep every figure.
    from matplotlib.figure import Figure

    rows = [name for name in _ROWS if name in dataset]
    if not rows:
        raise ValueError("these runs trained nothing (the null task), so that there is no accuracy to draw")
    scenarios, algorithms = list(dataset["scenario"].values), list(dataset["algorithm"].values)
    unit = time_unit(dataset)
    legend_height = 0.25 * -(-len(algorithms) // _LEGEND_COLUMNS)
    size = (max(9.0, 3.0 * len(scenarios)), 2.8 * len(rows) + legend_height + 0.2)
    figure = Figure(figsize=size, dpi=200, layout="constrained")
    panels = figure.subplots(len(rows), len(scenarios), sharex="col", sharey="row", squeeze=False)
    for panel_row, name in zip(panels, rows, strict=True):
        for panel, scenario in zip(panel_row, scenarios, strict=True):
            for index, algorithm in enumerate(algorithms):
                _draw(panel, dataset.sel(scenario=scenario, algorithm=algorithm), name, str(algorithm), index, unit)
            _dress(panel)
        panel_row[0].set_ylabel(_ROWS[name])
    for panel, scenario in zip(panels[0], scenarios, strict=True):
        panel.set_title(str(scenario))
    for panel in panels[-1]:
        panel.set_xlabel(f"time ({unit.name})")
    lines = {str(line.get_label()): line for panel in panels.flat for line in panel.get_lines()}
    names = [str(algorithm) for algorithm in algorithms if str(algorithm) in lines]
    figure.legend(
        [lines[name] for name in names], names, loc="outside lower center", ncols=_LEGEND_COLUMNS, frameon=False
    )
    return figure


def _dress(panel: "Axes") -> None:
    panel.grid(color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)


def _draw(panel: "Axes", runs: xr.Dataset, name: str, label: str, index: int, unit: TimeUnit) -> None:
    accuracy = 100 * runs[name].transpose("trial", "evaluation").values
    times = runs["time"].transpose("trial", "evaluation").values / unit.seconds
    # As far as every trial goes: of trials that end at a target, those that go on are the slow ones.
    evaluated = np.isfinite(accuracy[np.isfinite(accuracy).any(axis=1)])
    if not evaluated.size:
        return
    common = evaluated.all(axis=0)
    accuracy, times = accuracy[:, common], times[:, common]
    middle = np.nanmedian(times, axis=0)
    colour, dash = COLOURS[index % len(COLOURS)], _DASHES[index % len(_DASHES)]
    panel.fill_between(
        middle, np.nanmin(accuracy, axis=0), np.nanmax(accuracy, axis=0), color=colour, alpha=0.2, linewidth=0
    )
    panel.plot(middle, np.nanmedian(accuracy, axis=0), color=colour, linestyle=dash, linewidth=1.8, label=label)
