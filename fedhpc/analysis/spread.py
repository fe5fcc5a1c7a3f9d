"""How a number spreads over trials: the papers' 90 % interval of many, the range of few.

Hard et al. (Tables 20-25) give medians and 90 % intervals over ten trials and more. Here that interval is from the 5th
to the 95th percentile over trials, interpolated linearly between the two nearest of them. Of fewer trials than ten
these percentiles would be little else than the least and the greatest, and so they are called what they are: the range.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

INTERVAL_TRIALS = 10
"""From so many trials on, the interval is told."""

_LOW, _HIGH = 0.05, 0.95

Kind = Literal["90 % interval", "range"]


@dataclass(frozen=True)
class Spread:
    """Over the finished trials; NaN where there are none. ``low`` to ``high`` is what ``kind_of`` says."""

    median: float
    low: float
    high: float


def kind_of(trials: int) -> Kind:
    """What the spread of so many trials goes between."""
    return "90 % interval" if trials >= INTERVAL_TRIALS else "range"


def kinds_of(trials: list[int]) -> str:
    """The same in words, of a table whose lines have so many trials each."""
    found = {kind_of(number) for number in trials if number} or {"range"}
    if found == {"range"}:
        return "the range over trials"
    if len(found) == 1:
        return "the 90 % interval over trials (5th to 95th percentile)"
    where = f"where {INTERVAL_TRIALS} or more are there, else the range"
    return f"the 90 % interval over trials (5th to 95th percentile) {where}"


def spread(trials: NDArray[np.float64]) -> Spread:
    """Of values of shape (trials,), none of them NaN."""
    if not trials.size:
        return Spread(np.nan, np.nan, np.nan)
    low, high = bounds(trials)
    return Spread(float(np.median(trials)), float(low), float(high))


def bounds(trials: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Low and high of values of shape (trials, ...), one trial at least and none NaN, along the first axis. What is
    infinite (a target never reached) stays so."""
    ordered = np.sort(trials, axis=0)
    if kind_of(len(ordered)) == "range":
        return ordered[0], ordered[-1]
    return _percentile(ordered, _LOW), _percentile(ordered, _HIGH)


def _percentile(ordered: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    # numpy's own would make NaN of a finite value and an infinite one.
    place = level * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    part = place - below
    if part == 0:
        return np.asarray(ordered[below])
    with np.errstate(invalid="ignore"):
        between = ordered[below] + part * (ordered[above] - ordered[below])
    return np.asarray(np.where(np.isinf(ordered[above]), ordered[above], between))
