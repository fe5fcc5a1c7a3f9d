"""How much longer than the first algorithm each takes to a target."""

import numpy as np
import xarray as xr

from fedhpc.analysis.dots import dots_drawn
from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.lines import cells
from fedhpc.analysis.relative_time import relative_time
from fedhpc.analysis.spread import spread
from fedhpc.analysis.target_table import Target


def relative_time_drawing(dataset: xr.Dataset, target: Target, reference: str, why: str) -> Drawing:
    """Of an experiment (``open_experiment``): a panel a scenario, a dot an algorithm, of its time to the target over
    the ``reference``'s in the same trial; the median and interval over trials. ``why``: whose choice the target is, in
    words. Raises NotMeasured where no run has the target's metric."""
    ratios = relative_time(dataset, target, reference)
    rows: list[dict[str, object]] = []
    spreads, reached = {}, {}
    for scenario, algorithm, _, runs in cells(ratios.to_dataset(name="ratio")):
        values = runs["ratio"].values
        compared = values[~np.isnan(values)]
        one = spread(compared)
        there = int(np.isfinite(compared).sum())
        spreads[scenario, algorithm] = one
        reached[scenario, algorithm] = f"{there} of {compared.size}" if compared.size else "-"
        cell = {"scenario": scenario, "algorithm": algorithm, "metric": target.metric, "target": target.value}
        numbers = {"ratio_median": one.median, "low": one.low, "high": one.high}
        rows.append({**cell, "reference": reference, **numbers, "reached": there, "compared": compared.size})
    scenarios, algorithms = ([str(name) for name in dataset[axis].values] for axis in ("scenario", "algorithm"))
    told = f"{100 * target.value:g} %" if target.value <= 1 else f"{target.value:g}"
    goal = f"{target.metric.replace('_', ' ')} {told}"
    label = f"time to {goal} over that of {reference}"
    figure = dots_drawn(
        scenarios,
        algorithms,
        spreads,
        label,
        logarithmic=True,
        beside=reached,
        beside_label="trials that got there,\nof those compared",
    )
    for panel in figure.axes:
        panel.axvline(1, color="0.2", linewidth=1.2, zorder=0)
    return Drawing(
        "relative_time",
        f"Relative time to {goal}",
        f"Left of the line, an algorithm is there sooner than {reference}; at 2 it takes twice as long; the axis is "
        "logarithmic. Dots are medians over trials and bars the 90 % interval of ten or more and the range of fewer, "
        "with an arrow where some trials never get there, and without a dot where the median trial does not; how many "
        f"do stands at the right. Times are those of evaluations (evaluation.every). The target is {why}. Trials in "
        f"which {reference} never gets there, or the untrained model is there already, cannot be compared and are left "
        "out, so that more trials may get there than are counted here.",
        f"A dot for each algorithm and scenario: its time to the target over the time of {reference}.",
        figure,
        rows,
    )
