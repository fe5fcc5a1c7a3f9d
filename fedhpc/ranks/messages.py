"""The messages between rank 0 and the training ranks: one flat buffer each, nothing pickled.

A message is eight int64, eight float64, and a body: float32 weights where it carries a model version or a stack's
update, and rows of members where it carries a stack to train.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.work import Member

_INTEGERS, _NUMBERS = 8, 8
_HEADER_BYTES = 8 * (_INTEGERS + _NUMBERS)
_MEMBER = np.dtype([(name, "<i8") for name in ("version", "client", "participation", "steps")] + [("weight", "<f8")])

TAG = 1


class Kind(IntEnum):
    """What a message is, and which fields it uses, in order."""

    VERSION = 1  # version; weights
    TRAIN = 2  # makes, place; members
    EVALUATE = 3  # version, shard
    FORGET = 4  # version
    STOP = 5
    UPDATE = 6  # makes, place; weighted sum of deltas
    COUNTS = 7  # version, shard, correct, straggler correct; loss


class Message:
    """A buffer and its views."""

    __slots__ = ("buffer", "integers", "numbers")

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        self.buffer = buffer
        self.integers: NDArray[np.int64] = buffer[: 8 * _INTEGERS].view(np.int64)
        self.numbers: NDArray[np.float64] = buffer[8 * _INTEGERS : _HEADER_BYTES].view(np.float64)

    @classmethod
    def empty(cls, size: int) -> Self:
        """A message of ``size`` bytes."""
        return cls(np.empty(size, np.uint8))

    @classmethod
    def of(cls, kind: Kind, *integers: int, number: float = 0.0, vector: NDArray[np.float32] | None = None) -> Self:
        """A message of this kind with these fields."""
        message = cls.empty(_HEADER_BYTES + (0 if vector is None else vector.nbytes))
        message.integers[0] = kind
        message.integers[1 : 1 + len(integers)] = integers
        message.numbers[0] = number
        if vector is not None:
            message.vector[:] = vector
        return message

    @classmethod
    def to_train(cls, makes: int, place: int, members: Sequence[Member]) -> Self:
        """A stack to train."""
        message = cls.empty(_HEADER_BYTES + len(members) * _MEMBER.itemsize)
        message.integers[:3] = (Kind.TRAIN, makes, place)
        message._body.view(_MEMBER)[:] = [
            (member.version, member.client, member.participation, member.steps, member.weight) for member in members
        ]
        return message

    @property
    def kind(self) -> Kind:
        return Kind(int(self.integers[0]))

    @property
    def vector(self) -> NDArray[np.float32]:
        """The weights or the update."""
        return self._body.view(np.float32)

    @property
    def members(self) -> list[Member]:
        """The stack."""
        return [Member(*row) for row in self._body.view(_MEMBER).tolist()]

    def fields(self, count: int) -> list[int]:
        """The first ``count`` integers after the kind."""
        found: list[int] = self.integers[1 : 1 + count].tolist()
        return found

    @property
    def _body(self) -> NDArray[np.uint8]:
        return self.buffer[_HEADER_BYTES:]
