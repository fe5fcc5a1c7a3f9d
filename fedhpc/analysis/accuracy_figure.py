"""Accuracy over virtual time: which algorithm learns from stragglers, and how soon."""

import xarray as xr

from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.lines import Quantity, line_rows, lines_over
from fedhpc.analysis.measures import axis_label, measured
from fedhpc.analysis.time_unit import time_unit


def accuracy_drawing(dataset: xr.Dataset) -> Drawing | None:
    """Of an experiment (``open_experiment``): a panel a scenario and measure, a line an algorithm.

    A line goes through the medians over trials, of time and of the measure, at each evaluation that all trials have;
    the band is the interval over trials (``spread.bounds``). None where no run measures anything.
    """
    quantities = {
        name: Quantity(axis_label(measure), measure.factor, measure.logarithmic)
        for name, measure in measured(dataset).items()
    }
    if not quantities:
        return None
    unit = time_unit(dataset)
    told = " and ".join(quantity.label.removesuffix(" (%)") for quantity in quantities.values())
    return Drawing(
        "accuracy",
        "Learning curves",
        "The higher and the further to the left a line is, the more was learned, and the sooner. Lines are medians "
        "over trials, bands the 90 % interval of ten or more and the range of fewer; where bands lie over one another, "
        "the trials do not tell the algorithms apart. Each scenario has its own axis of time.",
        f"Lines of {told} over time in {unit.name}, one for each algorithm, in a panel for each scenario.",
        lines_over(dataset, "time", unit, "time", quantities),
        line_rows(dataset, "time", quantities),
    )
