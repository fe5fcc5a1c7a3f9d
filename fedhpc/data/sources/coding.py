"""Values as codes 0..k-1, in sorted order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_EXACT = 2**53
"""Below it, every whole number is a floating-point number of its own."""


def codes(values: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The values' ranks among the different values, int64 [values], and these values' names in sorted order.

    Whole numbers are sorted as numbers, however they are written.
    """
    distinct, ranks = np.unique(_as_numbers(values), return_inverse=True)
    return ranks.astype(np.int64), tuple(str(value) for value in distinct.tolist())


def holds_fractions(values: NDArray[Any]) -> bool:
    """Whether these are numbers, written as numbers or as text, of which some are not whole."""
    numbers = _floats(values)
    return numbers is not None and not _whole(numbers)


def missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value is NaN or the empty string; bool [values]."""
    if values.dtype.kind == "U":
        return np.asarray(values == "")
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def _as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind in "biu":
        return values.astype(np.int64) if values.dtype.kind == "b" else values
    numbers = _floats(values)
    if numbers is None or not _whole(numbers):
        return values
    whole = numbers.astype(np.int64)
    # "7" and "007" may be two names.
    return whole if len(np.unique(whole)) == len(np.unique(values)) else values


def _floats(values: NDArray[Any]) -> NDArray[np.float64] | None:
    try:
        return values.astype(np.float64)
    except ValueError:
        return None


def _whole(numbers: NDArray[np.float64]) -> bool:
    return bool(np.all((np.abs(numbers) < _EXACT) & (numbers == np.floor(numbers))))
