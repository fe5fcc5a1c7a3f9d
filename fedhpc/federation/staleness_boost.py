"""How RELAY boosts stale updates that have something new to tell (Abdelmoniem et al. 2021, section 4.2.4, equation 2).

    w_s = (1 - beta) / (tau_s + 1) + beta (1 - exp(-Lambda_s / Lambda_max)),
    Lambda_s = |u_F - (u_s + n_F u_F) / (n_F + 1)|^2 / |u_F|^2,

where u_F is the mean of the n_F fresh updates, which weigh 1 each, and u_s a stale one; Lambda_max is the largest
Lambda_s of the server update. All weights are then divided by their sum. The damping is the schedule's; the boost
depends on the updates themselves.

Without a fresh update, or where the fresh ones' mean or all Lambda_s are 0, there is nothing to compare with: the boost
is 0.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.floating]


def boosted(damped: Sequence[float], total: Vector, fresh: int, stale: Sequence[Vector], beta: float) -> list[float]:
    """What each of the ``stale`` updates, float [parameters], weighs beside a fresh one's 1.

    ``damped``: (1 - beta) / (tau_s + 1) of each. ``total``: the sum of the ``fresh`` updates, float [parameters].
    """
    boosts = _boosts(_deviations(total, fresh, stale)) if fresh else [0.0] * len(stale)
    return [weight + beta * boost for weight, boost in zip(damped, boosts, strict=True)]


def _deviations(total: Vector, fresh: int, stale: Sequence[Vector]) -> list[float]:
    """Lambda_s of each, in float64; 0 where the mean of the fresh ones is."""
    mean = total.astype(np.float64) / fresh
    length = _squared_norm(mean)
    if length == 0:
        return [0.0] * len(stale)
    # u_F - (u_s + n_F u_F) / (n_F + 1) = (u_F - u_s) / (n_F + 1), which is 0 where the two are the same.
    return [_squared_norm((mean - update) / (fresh + 1)) / length for update in stale]


def _boosts(deviations: Sequence[float]) -> list[float]:
    """1 - exp(-Lambda_s / Lambda_max) of each."""
    largest = max(deviations, default=0.0)
    if largest == 0:
        return [0.0] * len(deviations)
    return [-math.expm1(-deviation / largest) for deviation in deviations]


def _squared_norm(vector: Vector) -> float:
    return float(np.square(vector).sum())
