"""What a rank is asked for, and what it answers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
    (client, participation). ``weight`` is what its delta counts in the server update."""

    version: int
    client: int
    participation: int
    steps: int
    weight: float


@dataclass(frozen=True, slots=True)
class Train:
    """A stack: client updates that are computed together. It is the ``place``-th, counted from 0, of the stacks that
    make server version ``makes``."""

    makes: int
    place: int
    members: tuple[Member, ...]

    @property
    def versions(self) -> list[int]:
        """The versions that its members start from, each once."""
        return sorted({member.version for member in self.members})


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
