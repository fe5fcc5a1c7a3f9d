"""How many clients the model has learned from by when (RELAY's Figure 3, dotted lines)."""

from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from fedhpc.analysis.lines import Quantity, lines_over_time
from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def clients_figure(dataset: xr.Dataset, path: Path) -> None:
    """Draws an experiment (``open_experiment``) as a PNG: a panel a scenario, a line an algorithm, of the number of
    clients that have had an update used so far. Lines and bands are as in ``accuracy_figure``."""
    figure = clients_drawn(dataset)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def clients_drawn(dataset: xr.Dataset) -> "Figure":
    """``clients_figure`` before it is written, for a notebook to show or change."""
    from matplotlib.ticker import MaxNLocator

    figure = lines_over_time(dataset, {"unique_clients": Quantity("clients with an update used")})
    for panel in figure.axes:
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
        panel.yaxis.set_major_formatter("{x:,.0f}")
    return figure
