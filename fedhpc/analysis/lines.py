"""Lines over trials: one an algorithm, through the medians, with a band that is the interval or the range."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedhpc.analysis.panels import (
    COLOURS,
    DASHES,
    MOST_COLUMNS,
    WIDTH,
    dress,
    is_left,
    is_lowest,
    legend,
    legend_height,
    logarithmic_ticks,
    new_figure,
    scenario_panels,
)
from fedhpc.analysis.spread import bounds
from fedhpc.analysis.time_unit import TimeUnit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_HEIGHT = 2.8  # inches
_BELOW_0 = 0.03  # of what is above it, so that a line at 0 is not on the axis


class Quantity(NamedTuple):
    """What an axis shows: a label, and how many of its units one of the dataset's is. What is ``stepped`` is drawn as
    known at each evaluation, and not as if it grew evenly between them."""

    label: str
    factor: float = 1.0
    logarithmic: bool = False
    stepped: bool = False


class Line(NamedTuple):
    """One algorithm's trials together, each of shape (evaluations,): medians, and the spread about ``median``."""

    across: NDArray[np.float64]
    median: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    trials: int


def line_of(across: xr.DataArray, up: xr.DataArray) -> Line | None:
    """``up`` over ``across``, both (trial, evaluation), NaN where there is none. None where no trial is there."""
    x, y = (array.transpose("trial", "evaluation").values.astype(np.float64) for array in (across, up))
    there = np.isfinite(y).any(axis=1)
    if not there.any():
        return None
    # As far as every trial goes: of trials that end at a target, those that go on are the slow ones.
    common = np.isfinite(y[there]).all(axis=0)
    x, y = x[there][:, common], y[there][:, common]
    return Line(np.median(x, axis=0), np.median(y, axis=0), *bounds(y), int(there.sum()))


def cells(dataset: xr.Dataset) -> Iterator[tuple[str, str, int, xr.Dataset]]:
    """(scenario, algorithm, the algorithm's number, its runs there), scenario by scenario."""
    for scenario in dataset["scenario"].values:
        for number, algorithm in enumerate(dataset["algorithm"].values):
            runs = dataset.sel(scenario=scenario, algorithm=algorithm)
            yield str(scenario), str(algorithm), number, runs


def line_rows(dataset: xr.Dataset, across: str, variables: Mapping[str, Quantity]) -> list[dict[str, object]]:
    """The lines' points, in the dataset's own units."""
    rows: list[dict[str, object]] = []
    for scenario, algorithm, _, runs in cells(dataset):
        for name in variables:
            if line := line_of(runs[across], runs[name]):
                points = zip(*(array.tolist() for array in line[:4]), strict=True)
                rows += [
                    {
                        "scenario": scenario,
                        "algorithm": algorithm,
                        "variable": name,
                        f"{across}_s": x,
                        "median": median,
                        "low": low,
                        "high": high,
                        "trials": line.trials,
                    }
                    for x, median, low, high in points
                ]
    return rows


def lines_over(
    dataset: xr.Dataset, across: str, unit: TimeUnit, label: str, quantities: Mapping[str, Quantity]
) -> "Figure":
    """An experiment (``open_experiment``) over a variable of times: an algorithm a line through the medians over
    trials, at each evaluation that all trials have.

    Up to three scenarios are columns, and the ``quantities`` are rows; more scenarios are rows, and the quantities
    columns; of one quantity the panels stand three beside one another. Each scenario has its own times.
    """
    scenarios, algorithms = [str(name) for name in dataset["scenario"].values], _algorithms(dataset)
    if len(quantities) == 1:
        figure, panels = scenario_panels(scenarios, _PANEL_HEIGHT, legend_height(algorithms))
        (name,) = quantities
        places = {(scenario, name): panel for scenario, panel in zip(scenarios, panels, strict=True)}
    else:
        figure, places = _grid(scenarios, list(quantities), legend_height(algorithms))
    for scenario, algorithm, number, runs in cells(dataset):
        for name, quantity in quantities.items():
            if line := line_of(runs[across] / unit.seconds, quantity.factor * runs[name]):
                draw_line(places[scenario, name], line, algorithm, number, quantity.stepped)
    for number, ((_, name), panel) in enumerate(places.items()):
        dress(panel)
        panel.set_xlim(left=0)
        if quantities[name].logarithmic:
            panel.set_yscale("log")
            logarithmic_ticks(panel.yaxis, *panel.get_ylim())
        else:
            panel.set_ylim(bottom=-_BELOW_0 * panel.get_ylim()[1])
        if len(quantities) > 1 or is_left(number, len(places)):
            panel.set_ylabel(quantities[name].label)
        if len(quantities) > 1 or is_lowest(number, len(places)):
            panel.set_xlabel(f"{label} ({unit.name})")
        if len(quantities) > 1 and len(scenarios) <= MOST_COLUMNS:
            panel.label_outer()
    legend(figure, algorithms)
    return figure


def draw_line(panel: "Axes", line: Line, label: str, number: int, stepped: bool = False) -> None:
    """Draws an algorithm's line, the ``number``-th of the panel's, and its band; ``stepped``, each evaluation holds
    until the next."""
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    step: Literal["post"] | None = "post" if stepped else None
    panel.fill_between(line.across, line.low, line.high, color=colour, alpha=0.2, linewidth=0, step=step)
    # Not clipped, so that what begins at 0 is seen beside the axis.
    (drawn,) = panel.plot(
        line.across, line.median, color=colour, linestyle=dash, linewidth=1.8, label=label, clip_on=False
    )
    if stepped:
        drawn.set_drawstyle("steps-post")


def _grid(scenarios: list[str], names: list[str], below: float) -> "tuple[Figure, dict[tuple[str, str], Axes]]":
    across = len(scenarios) <= MOST_COLUMNS
    rows, columns = (len(names), len(scenarios)) if across else (len(scenarios), len(names))
    figure = new_figure(_PANEL_HEIGHT * rows + below)
    figure.set_figwidth(max(WIDTH, 2.6 * columns))
    # Panels of one scenario share its time, which another's may be many times as long as.
    grid = figure.subplots(
        rows, columns, sharex="col" if across else "row", sharey="row" if across else "col", squeeze=False
    )
    places = {}
    for s, scenario in enumerate(scenarios):
        for n, name in enumerate(names):
            panel = grid[(n, s) if across else (s, n)]
            places[scenario, name] = panel
            if not across or n == 0:
                panel.set_title(scenario, fontsize=11)
    return figure, places


def _algorithms(dataset: xr.Dataset) -> list[str]:
    return [str(name) for name in dataset["algorithm"].values]
