"""A server update in the making: its stacks' updates, added up in their order as they come."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


@dataclass
class Assembly:
    """``added`` stacks are in ``total``; ``waiting`` holds updates, by place, that came before their turn."""

    added: int = 0
    total: Vector | None = None
    waiting: dict[int, Vector] = field(default_factory=dict)

    def has(self, place: int) -> bool:
        """Whether this stack's update has come."""
        return place < self.added or place in self.waiting

    def add(self, place: int, update: Vector) -> None:
        """Takes a stack's update, which from now on is the assembly's own."""
        self.waiting[place] = update
        while (following := self.waiting.pop(self.added, None)) is not None:
            self.total = following if self.total is None else np.add(self.total, following, out=self.total)
            self.added += 1
