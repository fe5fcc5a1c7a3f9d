"""A comparison with a paper's tables as text and as comma-separated values."""

import csv
import io
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from fedhpc.analysis.aligned import Laid
from fedhpc.analysis.comparison import Compared, Comparison, Order
from fedhpc.analysis.spread import kind_of, kinds_of
from fedhpc.published import RELATIVE_TIME

INTERVAL_HEADING = "against the interval"
INSIDE, ABOVE, BELOW = "inside", "above", "below"
"""How the marks of that column begin."""


def format_comparisons(comparisons: Sequence[Comparison]) -> str:
    """Plain text, a chapter a table: ours as ``median [low, high]`` over trials, the paper's figure, ours against it
    as a ratio or in percentage points, and whether it lies outside the interval; then the order of rows, and the
    notes on the table."""
    return "\n".join(_chapter(of_table) for of_table in by_table(comparisons))


def by_table(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    """Those beside one another that are of one table."""
    return [list(of_table) for _, of_table in groupby(comparisons, lambda comparison: comparison.published.table)]


def csv_comparisons(comparisons: Sequence[Comparison]) -> str:
    """A line a figure, in the table's units; empty where no trial is finished, or where there is no such comparison."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    names = ["table", "scenario", "at", "algorithm", "published_row", "quantity", "units"]
    against = ["published", "published_low", "published_high", "ratio", "points", "beyond_interval"]
    table.writerow([*names, "ours_median", "ours_low", "ours_high", "interval", "trials", *against])
    for comparison in comparisons:
        cell = [comparison.published.table, comparison.published.scenario, _at(comparison)]
        for figure in comparison.figures:
            ours = [_empty(number) for number in (figure.ours.median, figure.ours.low, figure.ours.high)]
            names = [figure.algorithm, figure.row, figure.quantity, figure.units]
            low, high = figure.interval or (None, None)
            numbers = [_empty(number) for number in (low, high, figure.ratio, figure.points, figure.beyond)]
            kind = kind_of(figure.trials) if figure.trials else ""
            table.writerow([*cell, *names, *ours, kind, figure.trials, figure.published, *numbers])
    return text.getvalue()


def _chapter(comparisons: Sequence[Comparison]) -> str:
    table = comparisons[0].table
    text = f"{table.paper}, Table {table.table}\n{table.caption}\n\n"
    text += "\n".join(_paragraph(comparison) for comparison in comparisons)
    return f"{text}\n{closing_remarks(comparisons)}"


def closing_remarks(comparisons: Sequence[Comparison]) -> str:
    """What the intervals beside a table are, and the notes on it."""
    trials = [figure.trials for comparison in comparisons for figure in comparison.figures]
    text = (
        f"In brackets {kinds_of(trials)}, and the paper's interval where it prints one. The mark says whether our "
        "median lies inside the paper's interval or, where the paper prints none, whether the paper's figure lies "
        "inside ours.\n"
    )
    return text + "".join(f"Note: {note}\n" for note in comparisons[0].table.notes)


def _paragraph(comparison: Comparison) -> str:
    text = f"{comparison_heading(comparison)}:\n"
    if not comparison.figures:
        return text + "nothing that the table holds is measured here\n"
    return f"{text}{comparison_laid(comparison)}{comparison_remarks(comparison)}"


def comparison_heading(comparison: Comparison) -> str:
    """What is beside what, and where."""
    return f"Beside scenario {comparison.published.scenario}, {_where(comparison)}"


def comparison_laid(comparison: Comparison) -> Laid:
    """The figures as words, a line each."""
    return Laid(
        ["algorithm", "the paper's row", "quantity", "ours", "the paper's", "against it", INTERVAL_HEADING, "trials"],
        [_line(comparison.figures, index) for index in range(len(comparison.figures))],
        names=3,
        grouped=False,
    )


def comparison_remarks(comparison: Comparison) -> str:
    """How far the paper's order holds."""
    text = ""
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
        _printed(figure),
        _against(figure),
        _marked(figure),
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
    return median if figure.trials == 1 else f"{median} [{low}, {high}]"


def _number(figure: Compared, value: float) -> str:
    if np.isinf(value):
        return "never"
    if figure.quantity in (RELATIVE_TIME, "round_length"):
        return f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 1000 and figure.ratio is not None else f"{value:.1f}"


def _printed(figure: Compared) -> str:
    text = _number(figure, figure.published)
    if figure.interval is None:
        return text
    low, high = (_number(figure, end) for end in figure.interval)
    return f"{text} [{low}, {high}]"


def _marked(figure: Compared) -> str:
    if figure.beyond is None:
        return "-"
    if figure.beyond == 0:
        return INSIDE
    where = ABOVE if figure.beyond > 0 else BELOW
    if figure.points is not None:
        return f"{where} by {_distance(abs(figure.beyond), 1)} points"
    return f"{where} by {_distance(100 * abs(figure.beyond), 0)} %"


def _distance(far: float, digits: int) -> str:
    # What is outside is nowhere told to be outside by 0.
    return f"{far:.{digits}f}" if far >= 0.5 * 10**-digits else f"{far:.1g}"


def _against(figure: Compared) -> str:
    if not figure.trials or (figure.ratio is not None and np.isnan(figure.ratio)):
        return "-"
    return f"x {figure.ratio:.3f}" if figure.ratio is not None else f"{figure.points:+.1f} points"


def _empty(number: float | None) -> float | str:
    return "" if number is None or np.isnan(number) else number
