"""The messages between rank 0 and the training ranks: one flat buffer each, nothing pickled.

A message is eight int64, eight float64, and, where it carries a model version or a client update, float32 weights.
"""

from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

_INTEGERS, _NUMBERS = 8, 8
_HEADER_BYTES = 8 * (_INTEGERS + _NUMBERS)

TAG = 1


class Kind(IntEnum):
    """What a message is, and which fields it uses, in order."""

    VERSION = 1  # version; weights
    TRAIN = 2  # number, version, client, participation, steps
    EVALUATE = 3  # version, shard
    FORGET = 4  # version
    STOP = 5
    UPDATE = 6  # number; delta
    COUNTS = 7  # version, shard, correct, straggler correct; loss


class Message:
    """A buffer and its three views."""

    __slots__ = ("buffer", "integers", "numbers", "vector")

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        self.buffer = buffer
        self.integers: NDArray[np.int64] = buffer[: 8 * _INTEGERS].view(np.int64)
        self.numbers: NDArray[np.float64] = buffer[8 * _INTEGERS : _HEADER_BYTES].view(np.float64)
        self.vector: NDArray[np.float32] = buffer[_HEADER_BYTES:].view(np.float32)

    @classmethod
    def empty(cls, weights: int) -> Self:
        """A message with room for that many weights."""
        return cls(np.empty(_HEADER_BYTES + 4 * weights, np.uint8))

    @classmethod
    def of(cls, kind: Kind, *integers: int, number: float = 0.0, vector: NDArray[np.float32] | None = None) -> Self:
        """A message of this kind with these fields."""
        message = cls.empty(0 if vector is None else len(vector))
        message.integers[0] = kind
        message.integers[1 : 1 + len(integers)] = integers
        message.numbers[0] = number
        if vector is not None:
            message.vector[:] = vector
        return message

    @property
    def kind(self) -> Kind:
        return Kind(int(self.integers[0]))

    def fields(self, count: int) -> list[int]:
        """The first ``count`` integers after the kind."""
        found: list[int] = self.integers[1 : 1 + count].tolist()
        return found
