"""The deltas of past rounds, to which late updates are added, and the teachers that they make (Hard et al. 2023, 2.2).

A round is named by the version that its clients start from. A sum, once made, does not change: a late update makes a
new one, so that a teacher's sum stays as it was when its clients started.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
State = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class RoundDelta:
    """``total``: the sum over ``clients`` clients' deltas, float32 [parameters]."""

    total: Vector
    clients: int

    def mean(self) -> Vector:
        """The clients' mean delta."""
        mean: Vector = self.total * np.float32(1 / self.clients)
        return mean


@dataclass
class RoundDeltas:
    """``by_round``: the deltas that are kept. ``of_teachers``: by the version that clients start from and the teacher's
    id, what their teachers are made of. ``server``: by that version, the server optimiser's state."""

    by_round: dict[int, RoundDelta] = field(default_factory=dict)
    of_teachers: dict[int, dict[int, RoundDelta]] = field(default_factory=dict)
    server: dict[int, State] = field(default_factory=dict)

    def add(self, start: int, total: Vector | None, clients: int) -> None:
        """So many late updates of this round sum to ``total``; None where none of their clients has an example."""
        delta = self.by_round[start]
        self.by_round[start] = RoundDelta(
            delta.total if total is None else delta.total + total, delta.clients + clients
        )

    def assign(self, version: int, rounds: dict[int, int], server: State) -> None:
        """Teachers of clients that start from ``version``: id -> round."""
        if rounds:
            self.of_teachers[version] = {teacher: self.by_round[start] for teacher, start in rounds.items()}
            self.server[version] = server

    def forget(self, version: int) -> None:
        """Nobody who started from this version will train any more."""
        self.of_teachers.pop(version, None)
        self.server.pop(version, None)
