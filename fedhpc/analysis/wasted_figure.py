"""How much of the clients' time came to nothing (RELAY's measure of waste)."""

import numpy as np
import xarray as xr

from fedhpc.analysis.dots import dots_drawn
from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.lines import cells
from fedhpc.analysis.reaching import at_the_end
from fedhpc.analysis.resources import COUNTED, wasted_share
from fedhpc.analysis.spread import spread


def wasted_drawing(dataset: xr.Dataset) -> Drawing | None:
    """Of an experiment (``open_experiment``): a panel a scenario, a dot an algorithm, of the share of the clients' time
    by the end of a run whose update was never used; its median and interval over trials. None where nothing was."""
    shares = 100 * wasted_share(at_the_end(dataset))
    if not (shares > 0).any():
        return None
    rows: list[dict[str, object]] = []
    spreads = {}
    for scenario, algorithm, _, runs in cells(shares.to_dataset(name="wasted")):
        values = runs["wasted"].values
        one = spread(values[np.isfinite(values)])
        spreads[scenario, algorithm] = one
        cell = {"scenario": scenario, "algorithm": algorithm}
        rows.append({**cell, "wasted_percent_median": one.median, "low": one.low, "high": one.high})
    scenarios, algorithms = ([str(name) for name in dataset[axis].values] for axis in ("scenario", "algorithm"))
    return Drawing(
        "wasted",
        "Wasted time",
        "The further to the right, the more of their time clients spent on updates that nobody used. Dots are medians "
        f"over trials and bars the 90 % interval of ten or more and the range of fewer. {COUNTED}",
        "A dot for each algorithm and scenario: the percentage of client time that was wasted.",
        dots_drawn(scenarios, algorithms, spreads, "client time wasted (%)"),
        rows,
    )
