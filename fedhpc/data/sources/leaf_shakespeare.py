"""Shakespeare as LEAF writes it: 80 characters and the next one, of a role's lines."""

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.leaf_json import User, of_user

WINDOW = 80
_PARTS = ("\n !\"&'(),-.0123456789:;>?", "ABCDEFGHIJKLMNOPQRSTUVWXYZ[]", "abcdefghijklmnopqrstuvwxyz}")
CLASS_NAMES = tuple("".join(_PARTS))
"""LEAF's eighty characters (``utils/language_utils``), in the order of their numbers."""

_NUMBER = np.full(128, -1)
_NUMBER[[ord(character) for character in CLASS_NAMES]] = np.arange(len(CLASS_NAMES))


def read_shakespeare(user: User, key: str) -> tuple[NDArray[np.float32], list[int]]:
    """The user's windows as numbers of characters [examples, 80], and the next ones' numbers. Raises
    ExperimentError."""
    for name, texts, length in (("x", user.x, WINDOW), ("y", user.y, 1)):
        wrong = next((text for text in texts if not isinstance(text, str) or len(text) != length), None)
        if wrong is not None:
            raise of_user(user, key, f"{name} has {wrong!r}; it takes texts of {length} character{'s'[: length > 1]}")
    windows, following = _numbers(user, "".join(user.x), key), _numbers(user, "".join(user.y), key)
    return windows.reshape(-1, WINDOW).astype(np.float32), following.tolist()


def _numbers(user: User, text: str, key: str) -> NDArray[np.int64]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    numbers = np.where(codes < len(_NUMBER), _NUMBER[np.minimum(codes, len(_NUMBER) - 1)], -1)
    if (numbers < 0).any():
        unknown = text[int(np.argmin(numbers))]
        raise of_user(user, key, f"the character {unknown!r} is none of LEAF's {len(CLASS_NAMES)}")
    return numbers
