"""What chooses a round's clients among those that are online and free."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation


@dataclass(frozen=True)
class Wanted:
    """What a round asks for. ``round`` counts the rounds from 1; ``count`` is how many clients it would start; ``mu``
    is the moving average of the rounds' durations, in virtual seconds."""

    round: int
    count: int
    mu: float


class Selector(Protocol):
    """Whom a round starts. It draws from ``server.chance``."""

    def select(self, server: Server, wanted: Wanted) -> NDArray[np.int64]:
        """So many of ``server.candidates()``, each once; all that may be where they are fewer."""
        raise NotImplementedError

    def next_chance(self, server: Server) -> float:
        """The second after now at which somebody comes online who may be selected; infinite where nobody will."""
        return server.next_online()

    def uploaded(self, update: Participation, round_now: int) -> None:
        """A client has uploaded its update, which is used or thrown away, in this round or just after it."""
        return

    def closed(self, updates: Sequence[Participation], round_now: int) -> None:
        """The round is over, and these updates make its server update; none where it came to nothing."""
        return
