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
class Train:
    """A client update to compute: ``steps`` mini-batches of ``client`` from ``version``, with the key
    (client, participation)."""

    number: int
    version: int
    client: int
    participation: int
    steps: int


@dataclass(frozen=True, slots=True)
class Evaluate:
    """One shard of the held-out examples to evaluate with ``version``."""

    version: int
    shard: int


@dataclass(frozen=True, slots=True)
class Trained:
    """A client update: float32 [parameters], start minus end."""

    number: int
    delta: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A shard's counts."""

    version: int
    shard: int
    counts: ShardCounts


Work = Train | Evaluate
Answer = Trained | Evaluated
