"""The rows of a data file as they were read, before anything is made of them."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """``features``: numbers [rows, *shape], NaN where missing. ``columns``: the other named columns, key ("label",
    "client", "tag", "sample", "split") to values [rows]; a missing value is NaN or the empty string."""

    features: NDArray[Any]
    columns: dict[str, NDArray[Any]]
