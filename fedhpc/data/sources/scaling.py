"""Features brought to a common scale, by what the training examples show."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_BLOCK = 4096
"""Examples worked on at a time, so that float64 copies stay small."""


def scaled(
    features: NDArray[Any], training: NDArray[np.bool_], scaling: Literal["none", "unit", "standard"]
) -> NDArray[np.float32]:
    """The features [examples, *shape] as float32.

    ``training``: bool [examples]; only these decide the scale. ``unit``: integers are divided by their type's maximum,
    floating-point features each by its largest absolute value. ``standard``: each feature less its mean, over its
    standard deviation; a constant feature becomes 0.
    """
    if scaling == "none" or (scaling == "unit" and features.dtype.kind == "b"):
        return features.astype(np.float32)
    shift, scale = _standard(features, training) if scaling == "standard" else _unit(features, training)
    result = np.empty(features.shape, np.float32)
    for rows in _blocks(len(features)):
        result[rows] = (features[rows] - shift) / scale
    return result


def _unit(features: NDArray[Any], training: NDArray[np.bool_]) -> tuple[Any, Any]:
    if features.dtype.kind in "iu":
        return 0.0, float(np.iinfo(features.dtype).max)
    largest = np.zeros(features.shape[1:])
    for rows in _blocks(len(features)):
        largest = np.maximum(largest, np.abs(features[rows][training[rows]]).max(axis=0, initial=0))
    return 0.0, np.where(largest == 0, 1, largest)


def _standard(features: NDArray[Any], training: NDArray[np.bool_]) -> tuple[Any, Any]:
    total = np.zeros(features.shape[1:])
    squares = np.zeros(features.shape[1:])
    first = features[np.argmax(training)]
    constant = np.ones(features.shape[1:], bool)
    examples = np.count_nonzero(training)
    for rows in _blocks(len(features)):
        block = features[rows][training[rows]]
        total += block.sum(axis=0, dtype=np.float64)
        constant &= (block == first).all(axis=0)
    # A sum of equal values can be rounded, which would make a deviation of nearly but not quite 0.
    mean = np.where(constant, first, total / examples)
    for rows in _blocks(len(features)):
        squares += ((features[rows][training[rows]] - mean) ** 2).sum(axis=0)
    return mean, np.where(constant, np.inf, np.sqrt(squares / examples))


def _blocks(examples: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, examples, _BLOCK))
