"""Accuracy over the time that clients spent: what an algorithm makes of its learners (RELAY's Figures 2 to 12)."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from fedhpc.analysis.lines import TOTAL_ACCURACY, draw_line, dress, legend, legend_height
from fedhpc.analysis.reaching import at_the_end
from fedhpc.analysis.resources import wasted_share
from fedhpc.analysis.time_unit import time_unit
from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARES_IN_A_ROW = 3


def resources_figure(dataset: xr.Dataset, path: Path) -> None:
    """Draws an experiment (``open_experiment``) as a PNG: a panel a scenario, a line an algorithm, of total accuracy
    over the time that all clients together have spent, those included whose updates were never used.

    A line goes through the medians over trials, of learner time and of accuracy, at each evaluation that all trials
    have; the band is the range over trials. Under its panel stands which share of that time was wasted by the end, as a
    median over trials. Raises ValueError where no run has an accuracy.
    """
    figure = resources_drawn(dataset)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def resources_drawn(dataset: xr.Dataset) -> "Figure":
    """``resources_figure`` before it is written, for a notebook to show or change."""
    # Not pyplot: it would look for a display and keep every figure.
    from matplotlib.figure import Figure

    if "total_accuracy" not in dataset:
        raise ValueError("these runs trained nothing (the null task), so that there is no accuracy to draw")
    scenarios, algorithms = list(dataset["scenario"].values), list(map(str, dataset["algorithm"].values))
    unit = time_unit(dataset, "resource_used")
    wasted = wasted_share(at_the_end(dataset))
    rows = -(-len(algorithms) // _SHARES_IN_A_ROW)
    size = (max(9.0, 3.2 * len(scenarios)), 3.4 + 0.2 * rows + legend_height(algorithms))
    figure = Figure(figsize=size, dpi=200, layout="constrained")
    (panels,) = figure.subplots(1, len(scenarios), sharey=True, squeeze=False)
    for panel, scenario in zip(panels, scenarios, strict=True):
        told = {}
        for index, algorithm in enumerate(algorithms):
            cell = {"scenario": scenario, "algorithm": algorithm}
            runs, shares = dataset.sel(cell), wasted.sel(cell).values
            share = np.median(shares[np.isfinite(shares)]) if np.isfinite(shares).any() else np.nan
            across, up = runs["resource_used"] / unit.seconds, TOTAL_ACCURACY.factor * runs["total_accuracy"]
            draw_line(panel, across, up, algorithm, index)
            told[algorithm] = f"{algorithm} {100 * share:.0f} %"
        dress(panel)
        panel.set_title(str(scenario))
        panel.set_xlabel(f"learner time spent ({unit.name})")
        if lines := panel.get_lines():
            panel.legend(
                lines,
                [told[str(line.get_label())] for line in lines],
                title="of which wasted:",
                loc="upper center",
                bbox_to_anchor=(0.5, -0.21),
                borderaxespad=0,
                ncols=_SHARES_IN_A_ROW,
                frameon=False,
                fontsize=9,
                title_fontsize=9,
            )
    panels[0].set_ylabel(TOTAL_ACCURACY.label)
    legend(figure, algorithms)
    return figure
