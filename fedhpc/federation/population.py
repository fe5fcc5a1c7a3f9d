"""The clients as the scheduler sees them: how many examples each holds, which are stragglers, and how large a model
they download."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Population:
    """``examples``: int64 [clients], training examples a client holds. ``stragglers``: bool [clients].
    ``parameters``: of the model that clients train; None where they train none, or nobody asks."""

    examples: NDArray[np.int64]
    stragglers: NDArray[np.bool_]
    parameters: int | None = None

    def __len__(self) -> int:
        return len(self.examples)
