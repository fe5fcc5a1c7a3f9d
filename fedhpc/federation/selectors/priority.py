"""Least available prioritisation: RELAY's intelligent participant selection (Abdelmoniem et al. 2021, section 4.1 and
Algorithm 1)."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedhpc.federation.selectors.selector import Selector, Wanted
from fedhpc.federation.selectors.smallest import smallest
from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation
from fedhpc.settings import Settings


class PrioritySettings(Settings):
    """``rest``: the rounds for which a client does not check in after it has uploaded an update, unless all do."""

    kind: Literal["priority"]
    rest: int = Field(5, ge=0, le=10**6)


class Priority(Selector):
    """Those who will least probably be available in the slot from mu to 2 mu seconds from now."""

    def __init__(self, settings: PrioritySettings) -> None:
        self.rest = settings.rest
        self.resting: dict[int, int] = {}
        """The last round that each of those who rest sits out."""

    def select(self, server: Server, wanted: Wanted) -> NDArray[np.int64]:
        self.resting = {client: last for client, last in self.resting.items() if last >= wanted.round}
        candidates = self.checked_in(server)
        slot = server.now + wanted.mu, server.now + 2 * wanted.mu
        probability = server.probability(candidates, *slot)
        return candidates[smallest(probability, wanted.count, server.chance)]

    def checked_in(self, server: Server) -> NDArray[np.int64]:
        """The candidates who do not rest. Where nobody is and nobody would ever be, all have rested enough."""
        free = server.candidates()
        free[list(self.resting)] = False
        if self.resting and not free.any() and self.next_chance(server) == math.inf:
            self.resting = {}
            return self.checked_in(server)
        return np.flatnonzero(free)

    def next_chance(self, server: Server) -> float:
        return server.next_online(list(self.resting))

    def uploaded(self, update: Participation, round_now: int) -> None:
        if self.rest:
            self.resting[update.client] = round_now + self.rest
