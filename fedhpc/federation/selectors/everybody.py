"""No selection: all who are online and free train (SAFA: Wu et al. 2021, as RELAY describes it in section 2.2)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.selectors.selector import Selector, Wanted
from fedhpc.federation.server import Server
from fedhpc.settings import Settings


class EverybodySelection(Settings):
    """Whoever is there."""

    kind: Literal["everybody"]


class Everybody(Selector):
    """However many are wanted."""

    def select(self, server: Server, wanted: Wanted) -> NDArray[np.int64]:
        return np.flatnonzero(server.candidates())
