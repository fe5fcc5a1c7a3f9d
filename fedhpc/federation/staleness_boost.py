"""How RELAY weighs stale updates (Abdelmoniem et al. 2021, section 4.2.4, equation 2): the older they are the less, and
the more they have to tell that the fresh ones do not the more.

    w_s = (1 - beta) / (tau_s + 1) + beta (1 - exp(-Lambda_s / Lambda_max)),
    Lambda_s = |u_F - (u_s + n_F u_F) / (n_F + 1)|^2 / |u_F|^2,

where u_F is the mean of the n_F fresh updates, which weigh 1 each, u_s a stale one and tau_s its staleness; Lambda_max
is the largest Lambda_s of the server update. All weights are then divided by their sum.

Without fresh updates there is nothing to compare with, and the first term alone says how stale ones weigh beside each
other. Where the fresh ones' mean or all Lambda_s are 0, the second term is.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.floating]


def weights_of_stale(
    staleness: Sequence[int], stale: Sequence[Vector], fresh: int, total: Vector, beta: float
) -> list[float]:
    """What each of the ``stale`` updates, float [parameters], weighs beside a fresh one's 1. ``total``: the sum of the
    ``fresh`` updates, float [parameters]."""
    if not fresh:
        return [1 / (tau + 1) for tau in staleness]
    boosts = _boosts(_deviations(total / fresh, fresh, stale))
    return [(1 - beta) / (tau + 1) + beta * boost for tau, boost in zip(staleness, boosts, strict=True)]


def _boosts(deviations: Sequence[float]) -> list[float]:
    """1 - exp(-Lambda_s / Lambda_max) of each."""
    largest = max(deviations, default=0.0)
    if largest == 0:
        return [0.0] * len(deviations)
    return [-math.expm1(-deviation / largest) for deviation in deviations]


def _deviations(mean: Vector, fresh: int, stale: Sequence[Vector]) -> list[float]:
    """Lambda_s of each, in float64; 0 where the mean of the fresh ones is."""
    mean = mean.astype(np.float64)
    length = _squared_norm(mean)
    if length == 0:
        return [0.0] * len(stale)
    # u_F - (u_s + n_F u_F) / (n_F + 1) = (u_F - u_s) / (n_F + 1), which is 0 where the two are the same.
    return [_squared_norm((mean - update) / (fresh + 1)) / length for update in stale]


def _squared_norm(vector: Vector) -> float:
    return float(np.square(vector).sum())
