"""FEMNIST as LEAF writes it: 28 by 28 pixels in 0..1, row by row, in which the paper is 1."""

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.leaf_json import User, of_user
from fedhpc.data.sources.leaf_labels import numbered_labels
from fedhpc.data.sources.tff_pictures import CHARACTERS

SIDE = 28
CLASS_NAMES = CHARACTERS
"""LEAF's numbers are those of TFF's EMNIST: digits, capitals, small letters."""


def read_femnist(user: User, key: str) -> tuple[NDArray[np.float32], list[int]]:
    """The user's pictures [examples, 28, 28], and their labels. Raises ExperimentError."""
    lengths = {len(x) if isinstance(x, list) else -1 for x in user.x}
    if lengths - {SIDE * SIDE}:
        raise of_user(user, key, f"an x is no list of {SIDE * SIDE} pixels")
    try:
        values = np.array(user.x)
    except ValueError:  # one is a list
        values = np.array("")
    if values.dtype.kind not in "if" or values.ndim > 2:  # every pixel may be a list, all of one length
        raise of_user(user, key, "an x holds something that is no number")
    with np.errstate(over="ignore"):  # what is too large is not finite then
        pixels = values.astype(np.float32).reshape(-1, SIDE, SIDE)
    if not np.isfinite(pixels).all():
        raise of_user(user, key, "an x holds a value that is not finite")
    return pixels, numbered_labels(user, key, len(CLASS_NAMES))
