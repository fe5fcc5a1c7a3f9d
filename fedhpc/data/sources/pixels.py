"""Pixels as bytes, and as the numbers that a model reads."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def in_unit(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes 0..255 as float32 0..1, of the same shape and C-contiguous."""
    values: NDArray[Any] = np.divide(pixels, np.float32(255), order="C")
    return values
