"""The clients as the scheduler sees them: how many examples each holds, and which are stragglers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Population:
    """``examples``: int64 [clients], training examples a client holds. ``stragglers``: bool [clients]."""

    examples: NDArray[np.int64]
    stragglers: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.examples)
