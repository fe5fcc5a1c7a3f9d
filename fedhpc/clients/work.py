"""What a rank is asked for, and what it answers."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_TEACHER = -1
"""In place of a teacher's id, where a client trains without one."""


def output_of(version: int) -> int:
    """The id of the output model that is evaluated at a server version. A version's own id is its number."""
    return -2 - 2 * version


def version_of(output: int) -> int:
    """The server version whose output model has this id, or whose own id it is."""
    return output if output >= 0 else (-2 - output) // 2


def teacher_id(number: int) -> int:
    """The id of the ``number``-th teacher that is no server version."""
    return -3 - 2 * number


def is_teacher(vector: int) -> bool:
    """Whether this is the id of a teacher that is no server version."""
    return vector <= -3 and vector % 2 == 1


@dataclass(frozen=True, slots=True)
class ShardCounts:
    """A shard's scored labels that were predicted, of all held-out examples and of the stragglers'; and the summed loss
    (``losses.summed_loss``). ``top5``: the labels among the five highest scores. ``of_classes``: the predicted ones of
    each class. They are 0 and empty where the task does not ask for them."""

    correct: int
    straggler_correct: int
    loss: float
    top5: int = 0
    of_classes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """One client update of a stack: ``steps`` mini-batches of ``client`` from ``version``, with the key
    (client, participation). ``weight`` is what its delta counts in the sum. ``teacher`` is the id of the vector that
    it is distilled from.

    ``coreset``: the examples of its coreset, or 0 where it trains on all that it has. Before that come
    ``whole_epochs`` passes over all its examples, 0 or 1."""

    version: int
    client: int
    participation: int
    steps: int
    weight: float
    teacher: int = NO_TEACHER
    coreset: int = 0
    whole_epochs: int = 0


class Alone(NamedTuple):
    """A client update that no other is added to: the ``place``-th, counted from 0, of its server update's."""

    place: int


Part = int | Alone | None
"""What a stack's sum is added to: the server update's own (None), the delta of the round of that number, or none."""


@dataclass(frozen=True, slots=True)
class Train:
    """A stack: client updates that are computed together. It is the ``place``-th, counted from 0, of the stacks that
    server version ``makes`` waits for. ``part`` says what its sum is part of."""

    makes: int
    place: int
    members: tuple[Member, ...]
    part: Part = None

    @property
    def versions(self) -> list[int]:
        """The ids of the vectors that its members need, each once: the newest version last."""
        needed = {member.version for member in self.members}
        needed.update(member.teacher for member in self.members if member.teacher != NO_TEACHER)
        return sorted(needed)


@dataclass(frozen=True, slots=True)
class Evaluate:
    """One shard of the held-out examples to evaluate with ``version``, a version's id or its output model's."""

    version: int
    shard: int

    @property
    def versions(self) -> list[int]:
        """The version, as a list."""
        return [self.version]


@dataclass(frozen=True, slots=True)
class Trained:
    """A stack's answer: the weighted sum of its members' deltas (start minus end), and of running statistics that of
    where they end, float32 [parameters + statistics]; the gradient error of its coreset, NaN where it has none or
    none is asked for; and its members' losses in their order (``LocalTraining.losses``), none where nobody reads
    them."""

    makes: int
    place: int
    update: NDArray[np.float32]
    coreset_error: float = math.nan
    losses: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A shard's counts."""

    version: int
    shard: int
    counts: ShardCounts


Work = Train | Evaluate
Answer = Trained | Evaluated
