"""What a server update waits for, in the making: its stacks' sums, added up in their order as they come."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

Round = int | None


@dataclass
class Assembly:
    """``added`` stacks are in ``totals``: that of the server update itself under None, those of late updates under
    their round. ``waiting`` holds, by place, what came before its turn, with what it belongs to. ``coreset_errors``
    are those that came, by place."""

    added: int = 0
    totals: dict[Round, Vector] = field(default_factory=dict)
    waiting: dict[int, tuple[Round, Vector]] = field(default_factory=dict)
    coreset_errors: dict[int, float] = field(default_factory=dict)

    def has(self, place: int) -> bool:
        """Whether this stack's update has come."""
        return place < self.added or place in self.waiting

    @property
    def coreset_error(self) -> float | None:
        """Their mean, added up in the order of the places; None where there are none."""
        if not self.coreset_errors:
            return None
        return sum(error for _, error in sorted(self.coreset_errors.items())) / len(self.coreset_errors)

    def add(self, place: int, late_of: Round, update: Vector) -> None:
        """Takes a stack's update, which from now on is the assembly's own."""
        self.waiting[place] = (late_of, update)
        while (following := self.waiting.pop(self.added, None)) is not None:
            belongs, vector = following
            total = self.totals.get(belongs)
            self.totals[belongs] = vector if total is None else np.add(total, vector, out=total)
            self.added += 1
