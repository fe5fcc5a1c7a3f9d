"""How long client updates took, by algorithm: who makes a round long (FedCore: Guo et al. 2024, Figures 4 and 7)."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from fedhpc.analysis.lines import COLOURS
from fedhpc.analysis.time_unit import TimeUnit, time_unit
from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 40


def durations_figure(dataset: xr.Dataset, path: Path) -> None:
    """Draws an experiment (``open_experiment``) as a PNG: a column a scenario, a row an algorithm, with how many of all
    trials' client updates that were used took so long; the counts are on a logarithmic scale.

    Time is in units of the deadline where all of a scenario's runs have one, else in hours, or in seconds. Raises
    ValueError where no client update was used.
    """
    figure = durations_drawn(dataset)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def durations_drawn(dataset: xr.Dataset) -> "Figure":
    """``durations_figure`` before it is written, for a notebook to show or change."""
    # Not pyplot: it would look for a display and keep every figure.
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    scenarios, algorithms = list(dataset["scenario"].values), list(map(str, dataset["algorithm"].values))
    if not np.isfinite(dataset["duration"].values).any():
        raise ValueError("no client update of these runs was used, so that there is no duration to draw")
    size = (max(9.0, 3.6 * len(scenarios)), 1.1 * len(algorithms) + 1.0)
    figure = Figure(figsize=size, dpi=200, layout="constrained")
    columns = figure.subplots(len(algorithms), len(scenarios), sharex="col", sharey=True, squeeze=False).T
    for panels, scenario in zip(columns, scenarios, strict=True):
        _draw(list(panels), dataset.sel(scenario=scenario), time_unit(dataset, "duration"))
        panels[0].set_title(str(scenario))
    for panel, algorithm in zip(columns[0], algorithms, strict=True):
        panel.set_ylabel(algorithm, rotation=0, ha="right", va="center")
    # The panels share their axis: all of them must be drawn before its top is known.
    top = max(panel.dataLim.y1 for panel in columns.flat)
    columns[0][0].set_ylim(0.5, 2 * max(1.0, top))
    columns[0][0].yaxis.set_minor_formatter(NullFormatter())
    figure.supylabel("client updates")
    return figure


def _draw(panels: "list[Axes]", runs: xr.Dataset, unit: TimeUnit) -> None:
    durations = runs["duration"].transpose("algorithm", "trial", "client_update").values.astype(np.float64)
    has_deadline = False
    if "deadline" in runs:
        deadlines = runs["deadline"].transpose("algorithm", "trial").values
        has_deadline = bool(np.isfinite(deadlines[np.isfinite(durations).any(axis=2)]).all())
    durations = durations / deadlines[:, :, None] if has_deadline else durations / unit.seconds
    found = [one[np.isfinite(one)] for one in durations]
    edges = np.linspace(0, max((one.max() for one in found if one.size), default=0.0) or 1.0, _BINS + 1)
    for index, (panel, one) in enumerate(zip(panels, found, strict=True)):
        counts, _ = np.histogram(one, edges)
        # A logarithm has no place for 0: bars stand on a half, below which nothing is shown.
        panel.stairs(np.maximum(counts, 0.5), edges, baseline=0.5, fill=True, color=COLOURS[index % len(COLOURS)])
        if has_deadline:
            panel.axvline(1, color="0.4", linewidth=0.8)
        panel.set_yscale("log")
        panel.set_xlim(left=0)
        panel.grid(color="0.9", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel(f"time of a client update ({'deadlines' if has_deadline else unit.name})")
