"""What server updates have of something, as histograms."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from fedhpc.analysis.ridges import Histogram, counted

_BINS = 40


def server_update_histograms(
    dataset: xr.Dataset, variable: str, algorithms: Sequence[str], least_range: float, label: str
) -> dict[str, Histogram]:
    """Of an experiment (``open_experiment``): by scenario, of each of the ``algorithms`` how many server updates of all
    trials have so much of the variable, which is 0 or more. Bins reach from a little below 0, so that 0 has a bar of
    its own, to the most, or to ``least_range`` where the most is less."""
    axes = "scenario", "algorithm", "trial", "server_update"
    values = dataset[variable].sel(algorithm=list(algorithms)).transpose(*axes).values
    histograms = {}
    for scenario, of_scenario in zip(dataset["scenario"].values, values, strict=True):
        width = max(np.nanmax(of_scenario, initial=0.0), least_range) / (_BINS - 1)
        edges = np.linspace(-width / 2, (_BINS - 0.5) * width, _BINS + 1)
        counts = {name: counted(one, edges) for name, one in zip(algorithms, of_scenario, strict=True)}
        histograms[str(scenario)] = Histogram(edges, counts, {}, label)
    return histograms
