"""What a server update waits for, in the making: its stacks' sums, added up in their order as they come."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.work import Part, Train, Trained

Vector = NDArray[np.float32]

Losses = dict[tuple[int, int], float]
"""Of client updates, by (client, participation)."""


@dataclass
class Assembly:
    """``added`` stacks are in ``totals``: that of the server update itself under None, those of late updates under
    their round, and client updates that are kept apart under their place. ``waiting`` holds, by place, what came before
    its turn, with what it is part of. ``coreset_errors`` are those that came, by place, and ``losses`` those of the
    client updates that came, where anybody reads them."""

    added: int = 0
    totals: dict[Part, Vector] = field(default_factory=dict)
    waiting: dict[int, tuple[Part, Vector]] = field(default_factory=dict)
    coreset_errors: dict[int, float] = field(default_factory=dict)
    losses: Losses = field(default_factory=dict)

    def has(self, place: int) -> bool:
        """Whether this stack's update has come."""
        return place < self.added or place in self.waiting

    @property
    def coreset_error(self) -> float | None:
        """Their mean, added up in the order of the places; None where there are none."""
        if not self.coreset_errors:
            return None
        return sum(error for _, error in sorted(self.coreset_errors.items())) / len(self.coreset_errors)

    def add(self, stack: Train, answer: Trained) -> None:
        """Takes a stack's answer, whose update from now on is the assembly's own."""
        if not math.isnan(answer.coreset_error):
            self.coreset_errors[stack.place] = answer.coreset_error
        if answer.losses:
            keys = [(member.client, member.participation) for member in stack.members]
            self.losses |= zip(keys, answer.losses, strict=True)
        self.waiting[stack.place] = (stack.part, answer.update)
        while (following := self.waiting.pop(self.added, None)) is not None:
            part, vector = following
            total = self.totals.get(part)
            self.totals[part] = vector if total is None else np.add(total, vector, out=total)
            self.added += 1
