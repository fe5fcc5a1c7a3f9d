"""How much of the gradient coresets miss (FedCore: Guo et al. 2024, equation 2)."""

import numpy as np
import xarray as xr

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.ridges import histogram_rows, ridges_drawn
from fedhpc.analysis.server_update_histograms import server_update_histograms


def coreset_error_drawing(dataset: xr.Dataset) -> Drawing | None:
    """Of an experiment (``open_experiment``): a panel a scenario, and for each algorithm that recorded it a histogram
    of the server updates of all trials by the mean error of their clients' coresets. None where nobody recorded it."""
    if "coreset_error" not in dataset:
        return None
    values = dataset["coreset_error"].transpose("algorithm", "scenario", "trial", "server_update").values
    recorded = np.isfinite(values).any(axis=(1, 2, 3))
    everyone = [str(name) for name in dataset["algorithm"].values]
    algorithms = [name for name, has_it in zip(everyone, recorded, strict=True) if has_it]
    if not algorithms:
        return None
    histograms = server_update_histograms(dataset, "coreset_error", algorithms, 1e-6, "mean gradient error of coresets")
    return Drawing(
        "coreset_error",
        "What coresets miss of the gradient",
        "The length of the gradient over all of a client's examples less the weighted one over its coreset (FedCore, "
        "equation 2): a sum over examples, so that large clients miss more. The mean over the clients of a server "
        "update that built one; server updates without any are left out. The number at the right is the highest bar's, "
        "of all trials.",
        "A histogram for each algorithm of the mean gradient error of its server updates' coresets, in a panel a "
        "scenario.",
        ridges_drawn(algorithms, histograms, "server updates", colours_of=everyone),
        histogram_rows(histograms),
    )
