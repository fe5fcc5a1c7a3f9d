"""Histograms one above another, an algorithm each: twenty of them still stand in one panel."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedhpc.analysis.panels import (
    COLOURS,
    dress,
    is_left,
    is_right,
    legend,
    legend_height,
    logarithmic_ticks,
    scenario_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE = 0.36  # inches that an algorithm takes
_BESIDE = 0.95  # inches that title and axis take
_HIGHEST = 0.9  # of a line, by the highest bar
_CHUNK = 2**20  # values binned at a time
_MARKS = (0, *(step * 10**power for power in range(9) for step in (1, 3)))  # ticks of an axis that goes by factors


Scale = Literal["linear", "log", "log_from_0"]


class Histogram(NamedTuple):
    """``counts`` by algorithm, each of shape (bins,), over ``edges`` of shape (bins + 1,). ``outlined`` are those of a
    group that is drawn as a line over the bars, where there are two groups. ``scale``: along ``log_from_0``, 0 has a
    place, and one more than the value is what goes by factors."""

    edges: NDArray[np.float64]
    counts: Mapping[str, NDArray[np.float64]]
    outlined: Mapping[str, NDArray[np.float64]]
    label: str
    scale: Scale = "linear"


def ridges_drawn(
    algorithms: Sequence[str],
    histograms: Mapping[str, Histogram],
    counts_of: str,
    *,
    logarithmic_heights: bool = False,
    groups: tuple[str, str] | None = None,
    colours_of: Sequence[str] | None = None,
) -> "Figure":
    """A panel a scenario of ``histograms``; the highest bar of each algorithm is as high as any other's, whatever it
    counts, and how much that is stands to its right, where ``counts_of`` says of what. Both ``groups``, which a legend
    names, are of one scale. Bars of logarithmic heights begin at one half, and have a tick at each power of ten.
    ``colours_of``: an experiment's algorithms, where only some of them are drawn: each has the colour of its place in
    them, as in the other figures."""
    coloured = algorithms if colours_of is None else colours_of
    scenarios, labels = list(histograms), {one.label for one in histograms.values()}
    below = legend_height(groups) if groups else 0.0
    figure, panels = scenario_panels(scenarios, _LINE * len(algorithms) + _BESIDE, below, sharey=True)
    for number, (panel, scenario) in enumerate(zip(panels, scenarios, strict=True)):
        one = histograms[scenario]
        for place, algorithm in enumerate(algorithms):
            base = len(algorithms) - 1.0 - place
            panel.axhline(base, color="0.8", linewidth=0.6, zorder=0)
            colour = COLOURS[coloured.index(algorithm) % len(COLOURS)]
            highest = _highest(one, algorithm)
            for counts, fill in ((one.counts, True), (one.outlined, False)):
                drawn = counts.get(algorithm, np.zeros(0))
                heights = _heights(drawn, highest, logarithmic_heights)
                if heights.any():
                    style: dict[str, Any] = {"alpha": 0.75, "linewidth": 0} if fill else {"linewidth": 1.0}
                    panel.stairs(
                        base + _HIGHEST * heights,
                        one.edges,
                        baseline=base,
                        fill=fill,
                        color=colour if fill else "black",
                        **style,
                    )
        dress(panel)
        panel.grid(visible=False, axis="y")
        if one.scale == "log":
            panel.set_xscale("log")
            logarithmic_ticks(panel.xaxis, one.edges[0], one.edges[-1])
        elif one.scale == "log_from_0":
            panel.set_xscale("function", functions=(np.log1p, np.expm1))
            panel.set_xticks([mark for mark in _MARKS if mark <= one.edges[-1]])
            panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.set_xlim(one.edges[0], one.edges[-1])
        places = np.arange(len(algorithms) - 1.0, -1.0, -1.0)
        panel.set_yticks(places + 0.3, algorithms)
        panel.tick_params(axis="y", length=0, labelleft=is_left(number, len(panels)))
        panel.tick_params(axis="x", which="both", labelsize=8)
        panel.set_ylim(-0.1, len(algorithms))
        _height_axis(panel, algorithms, one, logarithmic_heights)
        if is_right(number, len(panels)):
            told = f"{counts_of},\nlogarithmic" if logarithmic_heights else counts_of
            panel.child_axes[0].set_ylabel(told, fontsize=8)
        if len(labels) > 1:
            panel.set_xlabel(one.label, fontsize=8)
    # Beside one another, long ones would overlap.
    if len(labels) == 1:
        figure.supxlabel(*labels, fontsize=10)
    if groups:
        _group_legend(figure, groups)
    return figure


def counted(values: NDArray[np.floating], edges: NDArray[np.float64], scale: float = 1.0) -> NDArray[np.float64]:
    """How many of ``values`` over ``scale``, NaN left out, lie in each bin between ``edges``, which are evenly spaced
    or in a geometric row; as numpy's histogram but for values within a rounding of an edge, and several times as
    fast."""
    bins = len(edges) - 1
    geometric = edges[0] > 0 and not np.isclose(edges[1] - edges[0], edges[-1] - edges[-2])
    first, last = (np.log(edges[0]), np.log(edges[-1])) if geometric else (edges[0], edges[-1])
    counts = np.zeros(bins, np.int64)
    flat = values.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK].astype(np.float64)
        chunk = chunk[np.isfinite(chunk)] / scale
        chunk = np.log(chunk, where=chunk > 0, out=np.full_like(chunk, -np.inf)) if geometric else chunk
        chunk = chunk[(chunk >= first) & (chunk <= last)]
        # The last bin holds its upper edge too.
        places = np.minimum(((chunk - first) * (bins / (last - first))).astype(np.int64), bins - 1)
        counts += np.bincount(places, minlength=bins)
    return counts.astype(np.float64)


def histogram_rows(
    histograms: Mapping[str, Histogram], groups: tuple[str, str] | None = None
) -> list[dict[str, object]]:
    """A row a bin that is not empty, of the group's name where there are two."""
    rows: list[dict[str, object]] = []
    for scenario, one in histograms.items():
        for of_group, counts in enumerate((one.counts, one.outlined)):
            for algorithm, column in counts.items():
                for bin_ in np.flatnonzero(column):
                    row: dict[str, object] = {"scenario": scenario, "algorithm": algorithm}
                    if groups is not None:
                        row["clients"] = groups[of_group]
                    low, high = one.edges[bin_], one.edges[bin_ + 1]
                    rows.append({**row, "from": float(low), "to": float(high), "count": int(column[bin_])})
    return rows


def _highest(one: Histogram, algorithm: str) -> float:
    """What the highest bar counts, of both groups where there are two."""
    return max(float(np.max(counts.get(algorithm, np.zeros(0)), initial=0.0)) for counts in (one.counts, one.outlined))


def _heights(counts: NDArray[np.float64], highest: float, logarithmic: bool) -> NDArray[np.float64]:
    if not counts.any():
        return counts
    if logarithmic:
        return np.asarray(np.where(counts > 0, np.log(2 * np.maximum(counts, 0.5)), 0.0) / np.log(2 * highest))
    return np.asarray(counts / highest)


def _height_axis(panel: "Axes", algorithms: Sequence[str], one: Histogram, logarithmic: bool) -> None:
    """At the panel's right, what each algorithm's highest bar counts."""
    axis = panel.secondary_yaxis("right")
    axis.spines["right"].set_visible(False)
    highest = {len(algorithms) - 1.0 - place: _highest(one, name) for place, name in enumerate(algorithms)}
    filled = {base: count for base, count in highest.items() if count}
    axis.set_yticks([base + _HIGHEST for base in filled], [f"{count:,.0f}" for count in filled.values()])
    if logarithmic:
        powers = {base: 10.0 ** np.arange(np.floor(np.log10(count)) + 1) for base, count in filled.items()}
        ticks = [base + _HIGHEST * _heights(each, filled[base], True) for base, each in powers.items()]
        axis.set_yticks(np.concatenate([*ticks, np.zeros(0)]), minor=True)
    axis.tick_params(axis="y", labelsize=7, colors="0.35", length=3)


def _group_legend(figure: "Figure", groups: tuple[str, str]) -> None:
    from matplotlib.patches import Patch

    filled = Patch(facecolor="0.6", edgecolor="none")
    outlined = Patch(facecolor="none", edgecolor="black", linewidth=1.0)
    # Above the panels, since below them it would lie on their common label.
    legend(figure, groups, dict(zip(groups, (filled, outlined), strict=True)), place="upper")
