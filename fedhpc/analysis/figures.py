"""Accuracy over virtual time: which algorithm learns from stragglers, and how soon."""

from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from fedhpc.analysis.lines import TOTAL_ACCURACY, Quantity, lines_over_time
from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS = {"straggler_accuracy": Quantity("straggler accuracy (%)", 100), "total_accuracy": TOTAL_ACCURACY}


def accuracy_figure(dataset: xr.Dataset, path: Path) -> None:
    """Draws an experiment (``open_experiment``) as a PNG: a column a scenario, a row an accuracy, a line an algorithm.

    A line goes through the medians over trials, of time and of accuracy, at each evaluation that all trials
    have; the band is the range over trials. Raises ValueError where no run has an accuracy.
    """
    figure = drawn(dataset)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def drawn(dataset: xr.Dataset) -> "Figure":
    """``accuracy_figure`` before it is written, for a notebook to show or change."""
    rows = {name: quantity for name, quantity in _ROWS.items() if name in dataset}
    if not rows:
        raise ValueError("these runs trained nothing (the null task), so that there is no accuracy to draw")
    return lines_over_time(dataset, rows)
