"""The messages between rank 0 and the training ranks: a header and a body, both sent as they lie. Nothing is pickled,
and nothing copied but an update that losses go with.

A header is eight int64, of which one is read as float64. A body is float32 weights where the message carries a model
version or a stack's update, which float64 losses may follow, rows of members where it carries a stack to train, and
int64 counts where it carries those of classes.
"""

from collections.abc import Sequence
from dataclasses import astuple
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.work import Member, ShardCounts

# Where the header has what; the fields lie between.
_KIND, _LOSSES, _NUMBER, _BODY_BYTES, _INTEGERS = 0, 3, 6, 7, 8
_LOSS_BYTES = 8
_MEMBER = np.dtype(
    [(name, "<i8") for name in ("version", "client", "participation", "steps")]
    + [("weight", "<f8"), ("teacher", "<i8"), ("coreset", "<i8"), ("whole_epochs", "<i8")]
)
_NO_BODY = np.empty(0, np.uint8)

TAG = 1


class Kind(IntEnum):
    """What a message is, and which fields it uses, in order."""

    VERSION = 1  # version; weights
    TRAIN = 2  # makes, place; members
    EVALUATE = 3  # version, shard
    FORGET = 4  # version
    STOP = 5  # a silo: whether all live
    UPDATE = 6  # makes, place, losses; coreset error, weighted sum of deltas and losses
    COUNTS = 7  # version, shard, correct, straggler correct, top5; loss, correct by class
    ABANDON = 8  # makes
    SIGN = 9  # a silo lives; whether this is its last message


class Message:
    """``header``, int64 [8], and ``body``, uint8 [bytes], which may be another's array and must not change."""

    __slots__ = ("body", "header")

    def __init__(self, header: NDArray[np.int64], body: NDArray[np.uint8]) -> None:
        self.header, self.body = header, body

    @classmethod
    def empty(cls) -> Self:
        """A message to receive a header into."""
        return cls(np.empty(_INTEGERS, np.int64), _NO_BODY)

    @property
    def lacks_body(self) -> bool:
        """Whether the header, which has come, tells of a body that has no room yet."""
        return bool(self.body.size != self.header[_BODY_BYTES])

    def make_room(self) -> None:
        """Gives the message an empty body of the size that its header tells."""
        self.body = np.empty(int(self.header[_BODY_BYTES]), np.uint8)

    @classmethod
    def of(cls, kind: Kind, *fields: int, number: float = 0.0, vector: NDArray[np.float32] | None = None) -> Self:
        """A message of this kind with these fields, five at most. ``vector`` lies in one piece."""
        body = _NO_BODY if vector is None else vector.view(np.uint8)
        header = np.zeros(_INTEGERS, np.int64)
        header[_KIND] = kind
        header[1 : 1 + len(fields)] = fields
        header.view(np.float64)[_NUMBER] = number
        header[_BODY_BYTES] = body.size
        return cls(header, body)

    @classmethod
    def to_train(cls, makes: int, place: int, members: Sequence[Member]) -> Self:
        """A stack to train."""
        message = cls.of(Kind.TRAIN, makes, place)
        rows = [astuple(member) for member in members]
        message.body = np.array(rows, _MEMBER).view(np.uint8)
        message.header[_BODY_BYTES] = message.body.size
        return message

    @classmethod
    def of_update(
        cls, makes: int, place: int, update: NDArray[np.float32], coreset_error: float, losses: Sequence[float]
    ) -> Self:
        """A stack's answer."""
        message = cls.of(Kind.UPDATE, makes, place, len(losses), number=coreset_error, vector=update)
        if losses:
            message.body = np.concatenate([message.body, np.array(losses, np.float64).view(np.uint8)])
            message.header[_BODY_BYTES] = message.body.size
        return message

    @classmethod
    def of_counts(cls, version: int, shard: int, counts: ShardCounts) -> Self:
        """A shard's counts."""
        fields = (counts.correct, counts.straggler_correct, counts.top5)
        message = cls.of(Kind.COUNTS, version, shard, *fields, number=counts.loss)
        if counts.of_classes:
            message.body = np.array(counts.of_classes, np.int64).view(np.uint8)
            message.header[_BODY_BYTES] = message.body.size
        return message

    @property
    def kind(self) -> Kind:
        return Kind(int(self.header[_KIND]))

    @property
    def number(self) -> float:
        return float(self.header.view(np.float64)[_NUMBER])

    @property
    def vector(self) -> NDArray[np.float32]:
        """The weights or the update."""
        return self.body[: self._losses_begin].view(np.float32)

    @property
    def losses(self) -> tuple[float, ...]:
        """Those that follow an update."""
        return tuple(self.body[self._losses_begin :].view(np.float64).tolist())

    @property
    def _losses_begin(self) -> int:
        losses = int(self.header[_LOSSES]) if self.kind is Kind.UPDATE else 0
        return self.body.size - _LOSS_BYTES * losses

    @property
    def members(self) -> list[Member]:
        """The stack."""
        return [Member(*row) for row in self.body.view(_MEMBER).tolist()]

    @property
    def counts(self) -> ShardCounts:
        """A shard's."""
        _, _, correct, straggler_correct, top5 = self.fields(5)
        return ShardCounts(correct, straggler_correct, self.number, top5, tuple(self.body.view(np.int64).tolist()))

    def fields(self, count: int) -> list[int]:
        """The first ``count`` integers after the kind."""
        found: list[int] = self.header[1 : 1 + count].tolist()
        return found
