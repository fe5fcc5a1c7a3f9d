"""Accuracy over the time that clients spent: what an algorithm makes of it (RELAY's Figures 2 to 12)."""

import xarray as xr

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.lines import Quantity, line_rows, lines_over
from fedhpc.analysis.measures import MEASURES, axis_label, main_measure
from fedhpc.analysis.resources import COUNTED
from fedhpc.analysis.time_unit import time_unit


def resources_drawing(dataset: xr.Dataset) -> Drawing | None:
    """Of an experiment (``open_experiment``): a panel a scenario, a line an algorithm, of the main measure over the
    time that all clients together have spent, those included whose updates were never used. Lines and bands are as in
    ``accuracy_drawing``; across go the medians over trials of client time. None where nothing is learned."""
    name = main_measure(dataset)
    if name is None:
        return None
    measure, unit = MEASURES[name], time_unit(dataset, "resource_used")
    quantity = {name: Quantity(axis_label(measure), measure.factor)}
    return Drawing(
        "accuracy_over_resources",
        "Accuracy over resources",
        "The further to the left a line rises, the less of the clients' time was spent for what was learned; time "
        f"whose update was never used is counted too. {COUNTED}",
        f"Lines of {quantity[name].label} over the time that clients spent in {unit.name}, one for each algorithm.",
        lines_over(dataset, "resource_used", unit, "client time spent", quantity),
        line_rows(dataset, "resource_used", quantity),
    )
