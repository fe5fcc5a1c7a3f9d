"""How long client updates took, by algorithm: who makes a round long (FedCore: Guo et al. 2024, Figures 4 and 7)."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.ridges import Histogram, counted, histogram_rows, ridges_drawn
from fedhpc.analysis.time_unit import TimeUnit, time_unit

_BINS = 40


def durations_drawing(dataset: xr.Dataset) -> Drawing | None:
    """Of an experiment (``open_experiment``): a panel a scenario, a histogram an algorithm, with how many of all
    trials' client updates that were used took so long; heights are on a logarithmic scale, so that a single one is
    seen.

    Time is in units of the deadline where all of a scenario's runs have one, else in hours, or in seconds. None
    where no client update was used.
    """
    if "duration" not in dataset or np.isnan(np.fmax.reduce(dataset["duration"].values, axis=None, initial=np.nan)):
        return None
    unit = time_unit(dataset, "duration")
    algorithms = [str(name) for name in dataset["algorithm"].values]
    histograms = {str(name): _histogram(dataset.sel(scenario=name), unit) for name in dataset["scenario"].values}
    figure = ridges_drawn(algorithms, histograms, "client updates", logarithmic_heights=True)
    for panel, one in zip(figure.axes, histograms.values(), strict=True):
        if "deadlines" in one.label:
            panel.axvline(1, color="0.4", linewidth=0.8)
    return Drawing(
        "durations",
        "How long client updates took",
        "A short ridge has left the slow clients' updates out, or made them shorter. Heights are logarithmic, so that "
        "few slow updates among many are seen: ticks at the right are at 1, 10, 100 and so on, and the number is the "
        "highest bar's, in client updates of all trials. Updates that were never used are not in it.",
        "A histogram for each algorithm of the time from a client's download to its upload, in a panel a scenario.",
        figure,
        histogram_rows(histograms),
    )


def _histogram(runs: xr.Dataset, unit: TimeUnit) -> Histogram:
    durations = runs["duration"].transpose("algorithm", "trial", "client_update").values
    longest = np.fmax.reduce(durations, axis=2, initial=np.nan).astype(np.float64)
    scales = np.full(longest.shape, unit.seconds)
    has_deadline = "deadline" in runs
    if has_deadline:
        deadlines = runs["deadline"].transpose("algorithm", "trial").values
        has_deadline = bool(np.isfinite(deadlines[np.isfinite(longest)]).all())
        scales = deadlines if has_deadline else scales
    top = np.nanmax(longest / scales, initial=0.0) or 1.0
    edges: NDArray[np.float64] = np.linspace(0, top, _BINS + 1)
    counts = {
        str(name): sum(
            (counted(one, edges, scale) for one, scale in zip(trials, of_trials, strict=True)), np.zeros(_BINS)
        )
        for name, trials, of_trials in zip(runs["algorithm"].values, durations, scales, strict=True)
    }
    return Histogram(edges, counts, {}, f"time of a client update ({'deadlines' if has_deadline else unit.name})")
