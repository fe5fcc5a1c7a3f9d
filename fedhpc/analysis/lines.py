"""Lines over trials: one an algorithm, through the medians, with a band that is the range."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedhpc.analysis.time_unit import time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind tell apart, less the yellow that white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":", "-.")

_LEGEND_COLUMNS = 4


class Quantity(NamedTuple):
    """What an axis shows: a label, and how many of its units one of the dataset's is."""

    label: str
    factor: float = 1.0


TOTAL_ACCURACY = Quantity("total accuracy (%)", 100)


def lines_over_time(dataset: xr.Dataset, quantities: Mapping[str, Quantity]) -> "Figure":
    """An experiment (``open_experiment``) over time: a column a scenario, a row a variable of ``quantities``, a line an
    algorithm through the medians over trials at each evaluation that all trials have."""
    # Not pyplot: it would look for a display and keep every figure.
    from matplotlib.figure import Figure

    scenarios, algorithms = list(dataset["scenario"].values), list(map(str, dataset["algorithm"].values))
    unit = time_unit(dataset)
    size = (max(9.0, 3.0 * len(scenarios)), 2.8 * len(quantities) + legend_height(algorithms) + 0.2)
    figure = Figure(figsize=size, dpi=200, layout="constrained")
    panels = figure.subplots(len(quantities), len(scenarios), sharex="col", sharey="row", squeeze=False)
    for panel_row, (name, quantity) in zip(panels, quantities.items(), strict=True):
        for panel, scenario in zip(panel_row, scenarios, strict=True):
            for index, algorithm in enumerate(algorithms):
                runs = dataset.sel(scenario=scenario, algorithm=algorithm)
                draw_line(panel, runs["time"] / unit.seconds, quantity.factor * runs[name], algorithm, index)
            dress(panel)
        panel_row[0].set_ylabel(quantity.label)
    for panel, scenario in zip(panels[0], scenarios, strict=True):
        panel.set_title(str(scenario))
    for panel in panels[-1]:
        panel.set_xlabel(f"time ({unit.name})")
    legend(figure, algorithms)
    return figure


def legend(figure: "Figure", algorithms: Sequence[str]) -> None:
    """Under the panels, the algorithms that have a line in one of them."""
    lines = {str(line.get_label()): line for panel in figure.axes for line in panel.get_lines()}
    names = [algorithm for algorithm in algorithms if algorithm in lines]
    figure.legend(
        [lines[name] for name in names], names, loc="outside lower center", ncols=_LEGEND_COLUMNS, frameon=False
    )


def legend_height(algorithms: Sequence[str]) -> float:
    """Inches that ``legend`` takes."""
    return 0.25 * -(-len(algorithms) // _LEGEND_COLUMNS)


def draw_line(panel: "Axes", across: xr.DataArray, up: xr.DataArray, label: str, index: int) -> None:
    """Draws one algorithm's trials, the ``index``-th of the panel's: ``up`` over ``across``, both (trial, evaluation),
    NaN where there is none. Nothing where no trial is there."""
    x, y = (array.transpose("trial", "evaluation").values.astype(np.float64) for array in (across, up))
    # As far as every trial goes: of trials that end at a target, those that go on are the slow ones.
    evaluated: NDArray[np.bool_] = np.isfinite(y[np.isfinite(y).any(axis=1)])
    if not evaluated.size:
        return
    common = evaluated.all(axis=0)
    x, y = x[:, common], y[:, common]
    middle = np.nanmedian(x, axis=0)
    colour, dash = COLOURS[index % len(COLOURS)], _DASHES[index % len(_DASHES)]
    panel.fill_between(middle, np.nanmin(y, axis=0), np.nanmax(y, axis=0), color=colour, alpha=0.2, linewidth=0)
    panel.plot(middle, np.nanmedian(y, axis=0), color=colour, linestyle=dash, linewidth=1.8, label=label)


def dress(panel: "Axes") -> None:
    """Grid, spines, and axes that begin at 0."""
    panel.grid(color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)
