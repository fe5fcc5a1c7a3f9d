"""A dot an algorithm, with its interval: one number each, in a panel a scenario."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedhpc.analysis.panels import COLOURS, dress, is_left, is_right, logarithmic_ticks, scenario_panels
from fedhpc.analysis.spread import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE = 0.27  # inches that an algorithm takes
_BESIDE = 0.95  # inches that title and axis take


def dots_drawn(
    scenarios: Sequence[str],
    algorithms: Sequence[str],
    spreads: Mapping[tuple[str, str], Spread],
    label: str,
    *,
    logarithmic: bool = False,
    beside: Mapping[tuple[str, str], str] | None = None,
    beside_label: str = "",
) -> "Figure":
    """``spreads`` by (scenario, algorithm), NaN where there is nothing. An interval without an end has an arrow at the
    edge, and none is drawn that is infinite altogether. ``beside``: words at the right of each line, under the heading
    ``beside_label``."""
    figure, panels = scenario_panels(scenarios, _LINE * len(algorithms) + _BESIDE, sharex="all")
    ends = [end for one in spreads.values() for end in (one.low, one.median, one.high) if np.isfinite(end)] or [1.0]
    low, high = min(ends), max(ends)
    room = max((high / low) ** 0.08, 1.1) if logarithmic else 1.06
    endless = any(np.isinf(one.high) for one in spreads.values())
    right = (high * room * (room**5 if endless else 1)) or 1.0
    for number, (panel, scenario) in enumerate(zip(panels, scenarios, strict=True)):
        for place, algorithm in enumerate(algorithms):
            _draw(panel, spreads[scenario, algorithm], place, right / room**0.5)
        dress(panel)
        panel.tick_params(axis="x", labelsize=8)
        panel.set_yticks(range(len(algorithms)), algorithms)
        panel.tick_params(axis="y", labelleft=is_left(number, len(panels)))
        if beside is not None:
            words = panel.secondary_yaxis("right")
            words.set_yticks(range(len(algorithms)), [beside[scenario, algorithm] for algorithm in algorithms])
            words.tick_params(axis="y", length=0, labelsize=8)
            words.spines["right"].set_visible(False)
            if is_right(number, len(panels)):
                words.set_ylabel(beside_label, fontsize=8)
    # One for all: beside one another, long ones would overlap.
    figure.supxlabel(label, fontsize=10)
    # The panels share their axes.
    first = panels[0]
    first.set_ylim(len(algorithms) - 0.5, -0.5)
    if logarithmic:
        for panel in panels:
            panel.set_xscale("log")
            logarithmic_ticks(panel.xaxis, low / room, right)
        first.set_xlim(low / room, right)
    else:
        first.set_xlim(-0.03 * high, right)
    return figure


def _draw(panel: "Axes", one: Spread, place: int, furthest: float) -> None:
    colour = COLOURS[place % len(COLOURS)]
    if np.isfinite(one.low):
        high = one.high if np.isfinite(one.high) else furthest
        panel.plot([one.low, high], [place, place], color=colour, linewidth=1.6)
        if np.isinf(one.high):
            panel.plot(high, place, ">", color=colour, markersize=7)
    if np.isfinite(one.median):
        panel.plot(one.median, place, "o", color=colour, markersize=6)
