"""The smallest of many numbers, with ties broken at random."""

import numpy as np
from numpy.typing import NDArray


def smallest(values: NDArray[np.float64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The places of the ``count`` smallest values, int64 [count], in ascending order of the values; of equal ones each
    is as likely to be among them, in any order. In time that grows with their number, not with a sort of them."""
    if count >= len(values):
        some = np.arange(len(values))
    elif count == 0:
        return np.empty(0, np.int64)
    else:
        bound = np.partition(values, count - 1)[count - 1]
        some = np.flatnonzero(values <= bound)
        below = values[some] < bound
        ties = generator.choice(some[~below], count - np.count_nonzero(below), replace=False)
        some = np.concatenate([some[below], ties])
    return some[np.lexsort((generator.random(len(some)), values[some]))]
