"""How long clients take, by group: a stacked density above, distribution functions below (Hard et al., Figures
9-11)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedhpc.analysis.aligned import Laid
from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.latency_draws import GROUPS, PERCENTILES, Latencies
from fedhpc.analysis.panels import MOST_COLUMNS, dress, legend, logarithmic_ticks, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 60
_STYLES: dict[str, tuple[str, Literal["-", "--"]]] = {
    "standard": ("#0072B2", "-"),
    "straggler": ("#D55E00", "--"),
    "all": ("#0072B2", "-"),
}
_ALPHA = 0.75
_CURVE = 200


def latency_drawing(latencies: Latencies) -> Drawing:
    """Of what ``draw_latencies`` gave: for each scenario the share of client updates of each length, stacked by group,
    and below it each group's distribution function, along one logarithmic axis of virtual seconds."""
    scenarios = list(dict.fromkeys(scenario for scenario, _ in latencies))
    columns = min(MOST_COLUMNS, len(scenarios))
    blocks = -(-len(scenarios) // columns)
    figure = new_figure(4.2 * blocks + 0.4)
    grid = figure.subplots(
        2 * blocks, columns, squeeze=False, sharey="row", gridspec_kw={"height_ratios": [1.2, 1] * blocks}
    )
    everything = np.concatenate(list(latencies.values()))
    above_0 = everything[everything > 0]
    # The last thousandth would leave the rest half of the panel.
    low, high = np.quantile(above_0, [0.0005, 0.9995]) if above_0.size else (0.5, 2.0)
    edges = np.geomspace(low / 1.1, high * 1.1, _BINS + 1)
    rows: list[dict[str, object]] = []
    for number, scenario in enumerate(scenarios):
        block, column = divmod(number, columns)
        density, distribution = grid[2 * block, column], grid[2 * block + 1, column]
        stacked = np.zeros(_BINS)
        for group in GROUPS:
            if (scenario, group) not in latencies:
                continue
            seconds = latencies[scenario, group]
            counts, _ = np.histogram(np.clip(seconds, edges[0], edges[-1]), edges)
            share = 100 * latencies.shares[group] * counts / seconds.size
            colour, dash = _STYLES[group]
            density.stairs(stacked + share, edges, baseline=stacked, fill=True, color=colour, alpha=_ALPHA)
            stacked = stacked + share
            below = np.searchsorted(seconds, edges, side="right") / seconds.size
            _distribution(distribution, seconds, colour, dash)
            rows += [
                {
                    "scenario": scenario,
                    "clients": group,
                    "from_s": float(edges[bin_]),
                    "to_s": float(edges[bin_ + 1]),
                    "share_of_all_updates": float(share[bin_]) / 100,
                    "cumulative_share_of_group": float(below[bin_ + 1]),
                }
                for bin_ in range(_BINS)
            ]
        density.set_title(scenario, fontsize=11)
        for panel in (density, distribution):
            panel.set_xscale("log")
            panel.set_xlim(edges[0], edges[-1])
            logarithmic_ticks(panel.xaxis, edges[0], edges[-1])
            dress(panel)
        density.tick_params(labelbottom=False)
        distribution.set_ylim(0, 100)
        distribution.set_xlabel("time of a client update (virtual seconds)", fontsize=9)
        if column == 0:
            density.set_ylabel("client updates (%)")
            distribution.set_ylabel("shorter than this (%)")
    for empty in range(len(scenarios), blocks * columns):
        block, column = divmod(empty, columns)
        grid[2 * block, column].remove()
        grid[2 * block + 1, column].remove()
    _legend(figure, [group for group in GROUPS if group in latencies.shares])
    return Drawing(
        "latency",
        "Latency by client group",
        _caption(latencies),
        "For each scenario a stacked histogram of latencies by client group, and under it the groups' cumulative "
        "distributions, along a logarithmic axis of virtual seconds.",
        figure,
        rows,
    )


def _caption(latencies: Latencies) -> str:
    drawn = f"Drawn by the federation's own sampler for the work of {latencies.algorithm}."
    if "all" in latencies.shares:
        return (
            "Above, how the times of all clients' updates are spread; below, the share of them that are shorter. The "
            f"task has no straggler clients (task.stragglers), so that there is one group, of all. {drawn}"
        )
    return (
        "Above, how the times of all clients' updates are spread, the groups stacked by how many clients they have; "
        "below, the share of each group's updates that are shorter. The further the curves lie apart, the more a "
        f"server that does not wait loses of the stragglers. {drawn}"
    )


def _legend(figure: "Figure", groups: Sequence[str]) -> None:
    """The bars' colour and the curve's stroke, side by side."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    samples = {
        f"{group} clients": (
            Patch(facecolor=colour, edgecolor="none", alpha=_ALPHA),
            Line2D([], [], color=colour, linestyle=dash, linewidth=1.8),
        )
        for group, (colour, dash) in _STYLES.items()
        if group in groups
    }
    legend(figure, list(samples), samples)


def percentile_rows(latencies: Latencies) -> list[dict[str, object]]:
    """The percentiles of each scenario and group, in virtual seconds, as Hard et al. print them in Tables 7-9."""
    return [
        {
            "scenario": scenario,
            "clients": group,
            **{f"percentile_{level}_s": float(np.percentile(seconds, level)) for level in PERCENTILES},
        }
        for (scenario, group), seconds in latencies.items()
    ]


def percentiles_laid(latencies: Latencies) -> Laid:
    """The same as words."""
    headings = ["scenario", "clients", *(f"{level}th percentile s" for level in PERCENTILES)]
    lines, last = [], None
    for row in percentile_rows(latencies):
        scenario, group, *levels = row.values()
        lines.append([str(scenario) if scenario != last else "", str(group), *(f"{level:,.1f}" for level in levels)])
        last = scenario
    return Laid(headings, lines, names=2)


def _distribution(panel: "Axes", seconds: np.ndarray, colour: str, dash: str) -> None:
    levels = np.linspace(0, 1, _CURVE)
    panel.plot(np.quantile(seconds, levels), 100 * levels, color=colour, linestyle=dash, linewidth=1.8)
