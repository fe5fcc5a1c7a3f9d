"""What a rank is asked for, and what it answers.

What ranks hold is a vector by its id, an int: server version v is v itself; the others are negative.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_TEACHER = -1
"""In the place of a teacher's id: the client trains without distillation."""


def output_of(version: int) -> int:
    """The id of the output model that is evaluated at a server version: -2, -4, ..."""
    return -2 - 2 * version


def teacher_id(number: int) -> int:
    """The id of the so-manieth teacher, counted from 0, that is no server version: -3, -5, ..."""
    return -3 - 2 * number


@dataclass(frozen=True, slots=True)
class ShardCounts:
    """A shard's held-out examples that were classified correctly, of all and of the straggler classes, and the sum of
    the examples' cross-entropies in nats."""

    correct: int
    straggler_correct: int
    loss: float


@dataclass(frozen=True, slots=True)
class Member:
    """One client update of a stack: ``steps`` mini-batches of ``client`` from ``version``, with the key
    (client, participation). ``weight`` is what its delta counts in the server update. ``teacher`` is the id of the
    vector that it distils from, a server version or a teacher, or NO_TEACHER."""

    version: int
    client: int
    participation: int
    steps: int
    weight: float
    teacher: int = NO_TEACHER


@dataclass(frozen=True, slots=True)
class Train:
    """A stack: client updates that are computed together. It is the ``place``-th, counted from 0, of the stacks that
    make server version ``makes``."""

    makes: int
    place: int
    members: tuple[Member, ...]

    @property
    def versions(self) -> list[int]:
        """The ids of all vectors that its members need, versions that they start from and teachers, each once. The
        last is the largest: the newest version."""
        needed = {member.version for member in self.members} | {member.teacher for member in self.members}
        return sorted(needed - {NO_TEACHER})


@dataclass(frozen=True, slots=True)
class Evaluate:
    """One shard of the held-out examples to evaluate with ``version``."""

    version: int
    shard: int

    @property
    def versions(self) -> list[int]:
        """The version, as a list."""
        return [self.version]


@dataclass(frozen=True, slots=True)
class Trained:
    """A stack's answer: the weighted sum of its members' deltas (start minus end), float32 [parameters]."""

    makes: int
    place: int
    update: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A shard's counts."""

    version: int
    shard: int
    counts: ShardCounts


Work = Train | Evaluate
Answer = Trained | Evaluated
