"""What every source of data loads into."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Examples:
    """Labelled examples, training and held-out ones together.

    ``features``: float32 [examples, *shape]. ``labels``: int64 [examples], each in 0..classes-1. ``held_out``: bool
    [examples]. ``class_names``: what the labels were called, [classes]. ``clients``: int64 [examples], an index into
    ``client_names``; held-out examples need none, and may have -1. None where the data's clients are not used.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    held_out: NDArray[np.bool_]
    class_names: tuple[str, ...]
    clients: NDArray[np.int64] | None = None
    client_names: tuple[str, ...] = ()
