"""The server's rule for running statistics: they move to the clients' own.

    s <- (1 - A) s + sum_i a_i s_i,    A = sum_i a_i

where s_i are client i's statistics at its end and a_i is what its update weighs in the server update; where A exceeds
1, the a_i are divided by it. So they are always a mean, whatever the server optimiser, its momentum, the normalisation
of the weights and the staleness: a variance stays between those that it is made of. A step along the clients' changes,
as the parameters take it, may end beside them all, and below zero.
"""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


def moved_to_clients(statistics: Vector, ends: Vector, weight: float) -> Vector:
    """The next version's statistics, float32 [statistics]. ``ends``: sum_i a_i s_i. ``weight``: A."""
    own = np.float32(max(1 - weight, 0)) * statistics
    moved: Vector = own + ends * np.float32(1 / max(weight, 1))
    return moved
