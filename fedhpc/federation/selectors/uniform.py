"""Uniform selection: everybody who is online and free with the same probability (McMahan et al. 2017)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.selectors.selector import Selector, Wanted
from fedhpc.federation.server import Server
from fedhpc.settings import Settings


class UniformSettings(Settings):
    """Without replacement."""

    kind: Literal["uniform"]


class Uniform(Selector):
    """So many at random."""

    def select(self, server: Server, wanted: Wanted) -> NDArray[np.int64]:
        candidates = np.flatnonzero(server.candidates())
        return server.chance.choice(candidates, min(wanted.count, len(candidates)), replace=False)
