"""How long client updates took, by algorithm: who makes a round long (FedCore: Guo et al. 2024, Figures 4 and 7)."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedhpc.analysis.figures import COLOURS, DASHES, LEGEND_COLUMNS
from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 40


def durations_figure(dataset: xr.Dataset, path: Path) -> None:
    """Draws an experiment (``open_experiment``) as a PNG: a column a scenario, a line an algorithm, through how many of
    all trials' client updates that were used took so long; the counts are on a logarithmic scale.

    Time is in units of the deadline where all of a scenario's runs have one, else in virtual hours. Raises ValueError
    where no client update was used.
    """
    figure = durations_drawn(dataset)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def durations_drawn(dataset: xr.Dataset) -> "Figure":
    """``durations_figure`` before it is written, for a notebook to show or change."""
    # Not pyplot: it would look for a display and keep every figure.
    from matplotlib.figure import Figure

    scenarios, algorithms = list(dataset["scenario"].values), list(map(str, dataset["algorithm"].values))
    if not np.isfinite(dataset["duration"].values).any():
        raise ValueError("no client update of these runs was used, so that there is no duration to draw")
    legend_height = 0.25 * -(-len(algorithms) // LEGEND_COLUMNS)
    size = (max(9.0, 3.6 * len(scenarios)), 3.2 + legend_height)
    figure = Figure(figsize=size, dpi=200, layout="constrained")
    panels = figure.subplots(1, len(scenarios), sharey="row", squeeze=False)[0]
    for panel, scenario in zip(panels, scenarios, strict=True):
        _draw(panel, dataset.sel(scenario=scenario), algorithms)
        panel.set_title(str(scenario))
    panels[0].set_ylabel("client updates")
    lines = {str(line.get_label()): line for panel in panels for line in panel.get_lines()}
    names = [name for name in algorithms if name in lines]
    figure.legend(
        [lines[name] for name in names], names, loc="outside lower center", ncols=LEGEND_COLUMNS, frameon=False
    )
    return figure


def _draw(panel: "Axes", runs: xr.Dataset, algorithms: list[str]) -> None:
    durations = runs["duration"].transpose("algorithm", "trial", "client_update").values.astype(np.float64)
    has_deadline = False
    if "deadline" in runs:
        deadlines = runs["deadline"].transpose("algorithm", "trial").values
        has_deadline = bool(np.isfinite(deadlines[np.isfinite(durations).any(axis=2)]).all())
    durations = durations / deadlines[:, :, None] if has_deadline else durations / 3600
    found = [one[np.isfinite(one)] for one in durations]
    longest = max((one.max() for one in found if one.size), default=0.0)
    edges = np.linspace(0, longest or 1.0, _BINS + 1)
    for index, (algorithm, one) in enumerate(zip(algorithms, found, strict=True)):
        if one.size:
            _line(panel, np.histogram(one, edges)[0], edges, algorithm, index)
    if has_deadline:
        panel.axvline(1, color="0.4", linewidth=0.8, label="_deadline")
    panel.set_yscale("log")
    panel.set_xlim(left=0)
    panel.set_xlabel("time of a client update (deadlines)" if has_deadline else "time of a client update (hours)")
    panel.grid(color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _line(panel: "Axes", counts: NDArray[np.int64], edges: NDArray[np.float64], label: str, index: int) -> None:
    """The outline of a histogram; bins without any are left out, for which a logarithm has no place."""
    shown = np.where(counts > 0, counts, np.nan)
    heights = np.append(shown, shown[-1])
    colour, dash = COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]
    panel.plot(edges, heights, drawstyle="steps-post", color=colour, linestyle=dash, linewidth=1.6, label=label)
