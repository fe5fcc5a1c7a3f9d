"""How long rounds are: the time between one server update and the next."""

import numpy as np
import xarray as xr

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.ridges import Histogram, counted, histogram_rows, ridges_drawn
from fedhpc.analysis.time_unit import time_unit

_BINS = 40
_SMALLEST = 1e-4
"""The shortest round that is drawn, of the longest: the axis is logarithmic, and several server updates may have one
time."""


def round_lengths(dataset: xr.Dataset) -> xr.DataArray:
    """Virtual seconds from a server update to the next, the first from second 0 on; along ``server_update``."""
    times = dataset["server_update_time"]
    lengths = times - times.shift(server_update=1, fill_value=0.0)
    return lengths.assign_attrs(units="s", long_name="time since the server update before")


def rounds_drawing(dataset: xr.Dataset) -> Drawing | None:
    """Of an experiment (``open_experiment``): a panel a scenario, a histogram an algorithm of the rounds' lengths, of
    all trials, along a logarithmic axis that is alike in all panels. None where no server update was made."""
    lengths = round_lengths(dataset)
    if not np.nanmax(lengths.values, initial=0.0) > 0:
        return None
    unit = time_unit(lengths.to_dataset(name="length").assign_attrs(dataset.attrs), "length")
    values = lengths.transpose("scenario", "algorithm", "trial", "server_update").values / unit.seconds
    longest = [length for length in np.fmax.reduce(values, axis=(1, 2, 3), initial=0.0) if length > 0]
    # Of the scenario with the shortest rounds, which would else be in the first bar altogether.
    shortest = max(np.nanmin(values, initial=np.inf, where=values > 0), _SMALLEST * min(longest))
    # A little wider, so that no end falls out by rounding.
    edges = np.geomspace(shortest / 1.05, max(longest) * 1.05, _BINS + 1)
    histograms = {}
    for scenario, of_scenario in zip(dataset["scenario"].values, values, strict=True):
        counts = {
            str(name): counted(np.maximum(one, shortest), edges)
            for name, one in zip(dataset["algorithm"].values, of_scenario, strict=True)
        }
        histograms[str(scenario)] = Histogram(edges, counts, {}, f"time between server updates ({unit.name})", "log")
    algorithms = [str(name) for name in dataset["algorithm"].values]
    return Drawing(
        "rounds",
        "Round lengths",
        "A synchronous round is as long as its slowest client; an asynchronous server moves on when it has heard "
        "enough, whoever that is. The axis is logarithmic and alike in all panels, and its first bar holds all that is "
        "shorter. The number at the right is the highest bar's, in server updates of all trials.",
        "A histogram for each algorithm of the time between server updates, in a panel for each scenario.",
        ridges_drawn(algorithms, histograms, "server updates"),
        histogram_rows(histograms),
    )
