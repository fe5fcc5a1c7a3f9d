"""How often each client's update was used: whether stragglers take part."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.ridges import Histogram, Scale, histogram_rows, ridges_drawn

_MOST_BINS = 40
_FAR_APART = 10
_GROUPS = "standard", "straggler"


def participation_drawing(dataset: xr.Dataset) -> Drawing:
    """Of an experiment (``open_experiment``): a panel a scenario, a histogram an algorithm of the clients of all trials
    by how many of their updates were used; straggler clients are outlined. 0 has a bar of its own, and so has every
    number where none is above 39. Where most clients have less than a tenth of the most, bars grow by factors, along an
    axis that goes by factors too."""
    axes = "scenario", "algorithm", "trial", "client"
    used = dataset["updates_aggregated_of_client"].transpose(*axes).values.astype(np.float64)
    slow = dataset["straggler"].transpose(*axes).values
    algorithms = [str(name) for name in dataset["algorithm"].values]
    histograms = {}
    for scenario, of_scenario, stragglers in zip(dataset["scenario"].values, used, slow, strict=True):
        firsts, by_factors = first_numbers(of_scenario[np.isfinite(of_scenario)].astype(np.int64))
        standard, outlined = (
            {
                name: _clients(one[(rows == group) & np.isfinite(one)], firsts)
                for name, one, rows in zip(algorithms, of_scenario, stragglers, strict=True)
            }
            for group in (0, 1)
        )
        outlined = {name: column for name, column in outlined.items() if column.any()}
        scale: Scale = "log_from_0" if by_factors else "linear"
        edges = firsts.astype(np.float64) - 0.5
        histograms[str(scenario)] = Histogram(edges, standard, outlined, "used updates of a client", scale)
    groups = _GROUPS if np.nansum(slow) > 0 else None
    scales, widths = {one.scale for one in histograms.values()}, [np.diff(one.edges) for one in histograms.values()]
    return Drawing(
        "participation",
        "Participation",
        "Clients by how many of their updates were used. The bar at 0 has only clients from whom nothing was learned."
        + (
            " Straggler clients are outlined in black, all others filled; where the outline lies left of the bars, "
            "stragglers are heard less often."
            if groups
            else ""
        )
        + (" Other bars are of several numbers." if any((width > 1).any() for width in widths) else "")
        + (" Where clients differ much, the axis goes by factors." if "log_from_0" in scales else "")
        + " The number at the right is the highest bar's: a client counts once in each trial.",
        "A histogram for each algorithm of how many updates of each client were used, in a panel for each scenario.",
        ridges_drawn(
            algorithms,
            histograms,
            "clients of all trials",
            groups=None if groups is None else (f"{groups[0]} clients", f"{groups[1]} clients"),
        ),
        histogram_rows(histograms, groups),
    )


def first_numbers(used: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
    """The least number of each bin of the numbers ``used``, and the one after them all; and whether bins grow by
    factors. Every number is for itself where none is above 39. Else 0 is, and the others are in 40 bins or fewer: of
    equal widths, or, where the median of them is less than a tenth of the most, such that one more than a bin's least
    goes by a factor."""
    most = int(used.max(initial=0))
    if most < _MOST_BINS:
        return np.arange(most + 2), False
    if np.median(used[used > 0]) < most / _FAR_APART:
        return np.unique(np.floor(np.geomspace(1, most + 2, _MOST_BINS + 1) + 1e-9).astype(np.int64)) - 1, True
    width = -(-most // _MOST_BINS)
    bins = -(-most // width)
    return np.concatenate([[0], 1 + width * np.arange(bins + 1)]), False


def _clients(numbers: NDArray[np.float64], firsts: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many of ``numbers``, none above the last of ``firsts``, each bin has."""
    of_number = np.bincount(numbers.astype(np.int64), minlength=int(firsts[-1]))
    return np.add.reduceat(of_number, firsts[:-1]).astype(np.float64)
