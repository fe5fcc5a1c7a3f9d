"""How a number spreads over trials."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Spread:
    """Over the finished trials; NaN where there are none."""

    median: float
    low: float
    high: float


def spread(trials: NDArray[np.float64]) -> Spread:
    """Of values of shape (trials,), none of them NaN."""
    if not trials.size:
        return Spread(np.nan, np.nan, np.nan)
    return Spread(float(np.median(trials)), float(trials.min()), float(trials.max()))
