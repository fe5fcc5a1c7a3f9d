"""What a run's evaluations can measure of the model, and how each measure is told."""

from typing import NamedTuple

import xarray as xr


class Measure(NamedTuple):
    """``label`` for axes and headings, with the units in which it is told; one of the dataset's is ``factor`` of
    these. Of perplexity less is better, and it is drawn along a logarithmic axis."""

    label: str
    factor: float = 100.0
    logarithmic: bool = False


MEASURES = {
    "straggler_accuracy": Measure("straggler accuracy %"),
    "total_accuracy": Measure("total accuracy %"),
    "top5_accuracy": Measure("top-5 accuracy %"),
    "balanced_accuracy": Measure("balanced accuracy %"),
    "dice": Measure("Dice %"),
    "perplexity": Measure("perplexity", factor=1.0, logarithmic=True),
}
"""Variables along ``evaluation`` -> how they are told, in the order of columns and panels."""

_MAIN = ("dice", "total_accuracy", "balanced_accuracy", "top5_accuracy", "straggler_accuracy")


def measured(dataset: xr.Dataset) -> dict[str, Measure]:
    """Those of an experiment (``open_experiment``); none of the null task."""
    return {name: measure for name, measure in MEASURES.items() if name in dataset}


def main_measure(dataset: xr.Dataset) -> str | None:
    """The one that a single axis shows, of which more is better: Dice where a task has it, since most voxels are
    background and count in the accuracy; None where nothing is learned."""
    return next((name for name in _MAIN if name in dataset), None)


def axis_label(measure: Measure) -> str:
    """The same label as an axis has it, units in brackets."""
    return f"{measure.label.removesuffix(' %')} (%)" if measure.label.endswith(" %") else measure.label
