"""How many clients the model has learned from by when (RELAY's Figure 3, dotted lines)."""

import xarray as xr

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.lines import Quantity, line_rows, lines_over
from fedhpc.analysis.time_unit import time_unit

_CLIENTS = {"unique_clients": Quantity("clients heard", stepped=True)}


def clients_drawing(dataset: xr.Dataset) -> Drawing:
    """Of an experiment (``open_experiment``): a panel a scenario, a line an algorithm, of the number of clients that
    have had an update used so far. Lines and bands are as in ``accuracy_drawing``."""
    from matplotlib.ticker import MaxNLocator

    unit = time_unit(dataset)
    figure = lines_over(dataset, "time", unit, "time", _CLIENTS)
    for panel in figure.axes:
        panel.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        panel.yaxis.set_major_formatter("{x:,.0f}")
    return Drawing(
        "clients",
        "Clients heard",
        "A client is heard when an update of its is used (the variable unique_clients). A line that stays low has left "
        "clients out: nothing of what these hold has reached the model by then. It is counted at evaluations, and "
        "drawn as steps: clients may have been heard at any time since the evaluation before.",
        f"Lines of the number of clients heard, over time in {unit.name}, one for each algorithm.",
        figure,
        line_rows(dataset, "time", _CLIENTS),
    )
