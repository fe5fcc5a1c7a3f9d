"""A comparison with a paper's tables as text and as comma-separated values."""

import csv
import io
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from fedhpc.analysis.aligned import aligned
from fedhpc.analysis.comparison import Compared, Comparison, Order
from fedhpc.published import RELATIVE_TIME


def format_comparisons(comparisons: Sequence[Comparison]) -> str:
    """Plain text, a chapter a table: ours as ``median [min, max]`` over trials, the paper's figure, and ours against it
    as a ratio or in percentage points; then the order of rows, and the notes on the table."""
    chapters = groupby(comparisons, lambda comparison: comparison.published.table)
    return "\n".join(_chapter(list(of_table)) for _, of_table in chapters)


def csv_comparisons(comparisons: Sequence[Comparison]) -> str:
    """A line a figure, in the table's units; empty where no trial is finished, or where there is no such comparison."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    names = ["table", "scenario", "at", "algorithm", "published_row", "quantity", "units"]
    table.writerow([*names, "ours_median", "ours_min", "ours_max", "trials", "published", "ratio", "points"])
    for comparison in comparisons:
        cell = [comparison.published.table, comparison.published.scenario, _at(comparison)]
        for figure in comparison.figures:
            ours = [_empty(number) for number in (figure.ours.median, figure.ours.low, figure.ours.high)]
            names = [figure.algorithm, figure.row, figure.quantity, figure.units]
            against = [_empty(number) for number in (figure.ratio, figure.points)]
            table.writerow([*cell, *names, *ours, figure.trials, figure.published, *against])
    return text.getvalue()


def _chapter(comparisons: Sequence[Comparison]) -> str:
    table = comparisons[0].table
    text = f"{table.paper}, Table {table.table}\n{table.caption}\n\n"
    text += "\n".join(_paragraph(comparison) for comparison in comparisons)
    if table.notes:
        text += "\n" + "".join(f"Note: {note}\n" for note in table.notes)
    return text


def _paragraph(comparison: Comparison) -> str:
    text = f"Beside scenario {comparison.published.scenario}, {_where(comparison)}:\n"
    if not comparison.figures:
        return text + "nothing that the table holds is measured here\n"
    text += aligned(
        ["algorithm", "the paper's row", "quantity", "ours", "the paper's", "against it", "trials"],
        [_line(comparison.figures, index) for index in range(len(comparison.figures))],
        names=3,
        grouped=False,
    )
    relative = [figure for figure in comparison.figures if figure.quantity == RELATIVE_TIME]
    if relative and not any(figure.trials for figure in relative):
        text += f"No trial of {comparison.published.relative_to} is finished and got there, to be relative to.\n"
    return text if comparison.order is None else text + _told(comparison.order)


def _where(comparison: Comparison) -> str:
    for metric, value in (comparison.published.at or {}).items():
        return f"at the first evaluation with {metric.replace('_', ' ')} of {value:g} or more"
    return "where the runs end"


def _line(figures: Sequence[Compared], index: int) -> list[str]:
    figure = figures[index]
    first = index == 0 or figures[index - 1].algorithm != figure.algorithm
    return [
        figure.algorithm if first else "",
        figure.row if first else "",
        f"{figure.quantity.replace('_', ' ')}, {figure.units}",
        _spread(figure),
        _number(figure, figure.published),
        _against(figure),
        str(figure.trials),
    ]


def _told(order: Order) -> str:
    text = f"Order by {order.quantity.replace('_', ' ')}: Kendall's tau {order.tau:.2f}."
    if not order.claims:
        return text + " The paper's intervals tell no two of these rows apart.\n"
    is_time = order.quantity == RELATIVE_TIME
    who = "the paper tells" if is_time else "the paper's intervals tell"
    text += (
        f" Of {len(order.claims)} pairs that {who} apart, "
        f"{sum(claim.holds for claim in order.claims)} stand in its order here.\n"
    )
    for claim in order.claims:
        verdict = "holds" if claim.holds else "does not hold"
        gap = f"{claim.gap:+.2f}" if is_time else f"{claim.gap:+.1f} points"
        text += f"  {claim.above} {'before' if is_time else 'above'} {claim.below}: {verdict} ({gap})\n"
    return text


def _at(comparison: Comparison) -> str:
    return "".join(f"{metric}={value:g}" for metric, value in (comparison.published.at or {}).items())


def _spread(figure: Compared) -> str:
    if not figure.trials:
        return "-"
    median, low, high = (_number(figure, value) for value in (figure.ours.median, figure.ours.low, figure.ours.high))
    return f"{median} [{low}, {high}]"


def _number(figure: Compared, value: float) -> str:
    if np.isinf(value):
        return "never"
    if figure.quantity in (RELATIVE_TIME, "round_length"):
        return f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 1000 and figure.ratio is not None else f"{value:.1f}"


def _against(figure: Compared) -> str:
    if not figure.trials or (figure.ratio is not None and np.isnan(figure.ratio)):
        return "-"
    return f"x {figure.ratio:.3f}" if figure.ratio is not None else f"{figure.points:+.1f} points"


def _empty(number: float | None) -> float | str:
    return "" if number is None or np.isnan(number) else number
