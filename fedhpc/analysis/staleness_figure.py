"""How old the models are that used client updates were made from."""

import numpy as np
import xarray as xr

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.ridges import histogram_rows, ridges_drawn
from fedhpc.analysis.server_update_histograms import server_update_histograms


def staleness_drawing(dataset: xr.Dataset) -> Drawing | None:
    """Of an experiment (``open_experiment``): a panel a scenario, a histogram an algorithm of the server updates of all
    trials by the mean staleness of what they aggregated. None where no server update was made."""
    if not np.isfinite(dataset["staleness"].values).any():
        return None
    algorithms = [str(name) for name in dataset["algorithm"].values]
    label = "mean staleness (server updates)"
    histograms = server_update_histograms(dataset, "staleness", algorithms, 1.0, label)
    return Drawing(
        "staleness",
        "Staleness",
        "0 where every update starts from the newest model; the further to the right, the older the models are that "
        "updates start from. The number at the right is the highest bar's, in server updates of all trials; beside it "
        "single ones may be too low to be seen: the axis goes to the oldest.",
        "A histogram for each algorithm of the mean staleness of its server updates, in a panel for each scenario.",
        ridges_drawn(algorithms, histograms, "server updates"),
        histogram_rows(histograms),
    )
