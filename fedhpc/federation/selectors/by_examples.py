"""Selection by size: each of those that are left with a probability proportional to the examples that it holds
(FedCore: Guo et al. 2024, Algorithm 1, line 3)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.selectors.selector import Selector, Wanted
from fedhpc.federation.server import Server
from fedhpc.federation.weighted_draw import drawn_by_weight
from fedhpc.settings import Settings


class ByExamplesSettings(Settings):
    """Without replacement; who holds no example is never selected."""

    kind: Literal["by_examples"]


class ByExamples(Selector):
    """So many at random, one after another."""

    def select(self, server: Server, wanted: Wanted) -> NDArray[np.int64]:
        candidates = np.flatnonzero(server.candidates() & (server.population.examples > 0))
        count = min(wanted.count, len(candidates))
        return candidates[drawn_by_weight(server.chance, server.population.examples[candidates], count)]

    def next_chance(self, server: Server) -> float:
        return server.next_online(np.flatnonzero(server.population.examples == 0).tolist())
