"""A sweep's results beside a paper's table: figure by figure, and in the order of its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import xarray as xr

from fedhpc.analysis.rank_correlation import kendall_tau
from fedhpc.analysis.reaching import at_evaluation, first_evaluation, last_evaluation
from fedhpc.analysis.spread import Spread, spread
from fedhpc.published import RELATIVE_TIME, Interval, Published, PublishedTable

QUANTITIES: Mapping[str, Literal["points", "ratio"]] = {
    "straggler_accuracy": "points",
    "total_accuracy": "points",
    "top5_accuracy": "points",
    "balanced_accuracy": "points",
    "dice": "points",
    "perplexity": "ratio",
    "time": "ratio",
    "client_trips": "ratio",
    "client_updates": "ratio",
    RELATIVE_TIME: "ratio",
    "top_accuracy": "points",
    "top_dice": "points",
    "top_balanced_accuracy": "points",
    "round_length": "ratio",
}
"""What is compared where the table has a column of that name -> how."""

_HIGHEST_OF = {"top_accuracy": "total_accuracy", "top_dice": "dice", "top_balanced_accuracy": "balanced_accuracy"}
"""What is the highest of a run's evaluations -> of which measure."""

_ORDERED_BY = "straggler_accuracy"


@dataclass(frozen=True)
class Compared:
    """One figure of the table, and ours, both in the table's units; infinite where a target was never reached.
    ``trials`` are those behind ours. ``interval`` is printed beside the paper's figure, None where it prints none."""

    algorithm: str
    row: str
    quantity: str
    units: str
    ours: Spread
    trials: int
    published: float
    interval: Interval | None = None

    @property
    def beyond(self) -> float | None:
        """By how much ours lies outside the interval, below it where that is negative; 0 inside: percentage points of
        an accuracy, else a share of the interval's end. Our median is held against the paper's interval or, where it
        prints none, the paper's figure against ours. None where there is nothing to hold against it.
        """
        if self.interval is not None:
            low, high = self.interval
            least, most = self.ours.median - high, self.ours.median - low
            ends = high, low
        else:
            low, high = self.ours.low, self.ours.high
            least, most = low - self.published, high - self.published
            ends = self.published, self.published
        if not self.trials or not np.isfinite([self.ours.median, self.published, low, high]).all():
            return None
        # Rounding in the units of the table is no distance.
        outside, end = (least, ends[0]) if least > 1e-9 else (most, ends[1]) if most < -1e-9 else (0.0, 1.0)
        return outside if QUANTITIES[self.quantity] == "points" else outside / end if end else None

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's; None for an accuracy, NaN where a target was never reached."""
        if QUANTITIES[self.quantity] != "ratio":
            return None
        return self.ours.median / self.published if np.isfinite(self.ours.median + self.published) else np.nan

    @property
    def points(self) -> float | None:
        """Ours less the paper's, in percentage points; None for what is no accuracy."""
        return self.ours.median - self.published if QUANTITIES[self.quantity] == "points" else None


@dataclass(frozen=True)
class Claim:
    """The paper has the row ``above`` before the row ``below``, by more than its intervals; ``gap`` is by how much our
    medians have, in the table's units: the claim holds where it is positive."""

    above: str
    below: str
    gap: float

    @property
    def holds(self) -> bool:
        return self.gap > 0


@dataclass(frozen=True)
class Order:
    """How far our rows stand in the paper's order by ``quantity``: Kendall's tau-b over the medians, and each pair of
    rows that the paper tells apart. Of relative times that is each row and the one that they are relative to."""

    quantity: str
    tau: float
    claims: list[Claim]


@dataclass(frozen=True)
class Comparison:
    """One table beside one scenario. ``order`` is None where there is nothing to put in order."""

    published: Published
    table: PublishedTable
    figures: list[Compared]
    order: Order | None


def compare(dataset: xr.Dataset, published: Published, table: PublishedTable) -> Comparison:
    """An experiment (``open_experiment``) beside a table.

    Ours are medians and ranges over the trials, where each run ends or, with ``published.at``, where it first reaches
    that; trials that are not finished, or never reach it, are left out. What the runs do not measure (accuracies where
    nothing is trained) and cells without a figure are left out too. Raises NotMeasured where no run has the metric of
    ``published.at``.
    """
    runs = dataset.sel(scenario=published.scenario)
    position = last_evaluation(runs)
    for metric, value in (published.at or {}).items():
        position = first_evaluation(runs, metric, value)
    figures = []
    for algorithm, row in published.rows.items():
        for quantity in QUANTITIES:
            printed = table.figure(row, quantity)
            if printed is None:
                continue
            measured = _measured(quantity, runs, position, algorithm, published.relative_to)
            if measured is None:
                continue
            column = table.columns[quantity]
            trials = measured.values / column.factor
            there = trials[~np.isnan(trials)]
            interval = table.interval(row, quantity)
            ours = spread(there)
            figures.append(Compared(algorithm, row, quantity, column.units, ours, there.size, printed, interval))
    return Comparison(published, table, figures, _order(figures, table) or _order_of_times(figures, published))


def _measured(
    quantity: str, runs: xr.Dataset, position: xr.DataArray, algorithm: str, reference: str | None
) -> xr.DataArray | None:
    """An algorithm's quantity, trial by trial, NaN where there is none; None where the runs measure no such thing.

    A relative time is the trial's own over the reference's in the same trial, whose clients are the same; a finished
    trial that never reaches what is asked for takes for ever. A round's length is the mean, in units of the deadline.
    """
    if quantity == RELATIVE_TIME:
        finished = last_evaluation(runs) >= 0
        times = at_evaluation(runs["time"], position).fillna(np.inf).where(finished)
        of_reference = times.sel(algorithm=reference)
        return times.sel(algorithm=algorithm) / of_reference.where(np.isfinite(of_reference))
    own = runs.sel(algorithm=algorithm)
    if quantity == "round_length":
        if "deadline" not in own.variables:
            return None
        own_position = position.sel(algorithm=algorithm)
        time, rounds = (at_evaluation(own[name], own_position) for name in ("time", "server_updates"))
        return time / rounds / own["deadline"]
    if (measure := _HIGHEST_OF.get(quantity)) is not None:
        return own[measure].max("evaluation") if measure in own.variables else None
    return at_evaluation(own[quantity], position.sel(algorithm=algorithm)) if quantity in own.variables else None


def _order(figures: Sequence[Compared], table: PublishedTable) -> Order | None:
    ranked = [figure for figure in figures if figure.quantity == _ORDERED_BY and figure.trials]
    if len(ranked) < 2:
        return None
    claims = []
    for one, other in combinations(ranked, 2):
        above, below = (one, other) if one.published >= other.published else (other, one)
        low, _ = table.interval(above.row, _ORDERED_BY) or (above.published, above.published)
        _, high = table.interval(below.row, _ORDERED_BY) or (below.published, below.published)
        if low > high:
            claims.append(Claim(above.row, below.row, above.ours.median - below.ours.median))
    tau = kendall_tau([figure.published for figure in ranked], [figure.ours.median for figure in ranked])
    return Order(_ORDERED_BY, tau, claims)


def _order_of_times(figures: Sequence[Compared], published: Published) -> Order | None:
    """Who reaches the target first."""
    ranked = [figure for figure in figures if figure.quantity == RELATIVE_TIME and figure.trials]
    if len(ranked) < 2 or published.relative_to not in published.rows:
        return None
    reference = published.rows[published.relative_to]
    claims = []
    for figure in ranked:
        if figure.published > 1:
            claims.append(Claim(reference, figure.row, figure.ours.median - 1))
        elif figure.published < 1:
            claims.append(Claim(figure.row, reference, 1 - figure.ours.median))
    tau = kendall_tau([figure.published for figure in ranked], [figure.ours.median for figure in ranked])
    return Order(RELATIVE_TIME, tau, claims)
