"""Draws without replacement, by weight."""

import numpy as np
from numpy.typing import NDArray


def drawn_by_weight(
    generator: np.random.Generator, weights: NDArray[np.float64] | NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """The places of ``count`` of the weights, int64 [count], in the order in which they were drawn: one after another
    without replacement, each of those that are left with a probability proportional to its weight. What weighs nothing
    is drawn where nothing else is left, all alike."""
    # The first of exponential clocks with these rates is one's with the probability that it is to have, and so is the
    # first of those that are left.
    clocks = generator.standard_exponential(len(weights))
    heavy = np.flatnonzero(weights > 0)
    drawn = heavy[_smallest(clocks[heavy] / weights[heavy], count)]
    if len(drawn) < count:
        light = np.flatnonzero(weights <= 0)
        drawn = np.concatenate([drawn, light[_smallest(clocks[light], count - len(drawn))]])
    return drawn


def _smallest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The places of the ``count`` smallest, or of all, in ascending order."""
    some = np.argpartition(values, count - 1)[:count] if 0 < count < len(values) else np.arange(len(values))
    return some[np.argsort(values[some], kind="stable")][:count]
