"""An exponential moving average of the global model as the output model (Hard et al. 2023, sections 2.1 and 2.2)."""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedhpc.settings import Settings

Vector = NDArray[np.float32]
State = dict[str, NDArray[np.generic]]


class MovingAverageSettings(Settings):
    """``decay`` is beta: e_t = beta e_(t-1) + (1 - beta) w_t, from e_0 = w_0, which after few updates is mostly the
    initial model. With ``bias_correction`` the initial model counts nothing, and the weights of w_1, ..., w_t sum to
    one."""

    decay: float = Field(ge=0, lt=1)
    bias_correction: bool = False


class MovingAverage:
    """The average so far, float32 [parameters]."""

    def __init__(self, settings: MovingAverageSettings, initial: Vector) -> None:
        self._decay, self._corrects = settings.decay, settings.bias_correction
        self._initial = initial
        self._average = np.zeros_like(initial) if self._corrects else initial.copy()
        self._updates = 0

    def add(self, weights: Vector) -> None:
        """Takes the weights of the next server version."""
        self._updates += 1
        self._average *= np.float32(self._decay)
        self._average += np.float32(1 - self._decay) * weights

    def model(self) -> Vector:
        """A copy of the output model."""
        if not self._corrects:
            return self._average.copy()
        if not self._updates:
            return self._initial.copy()
        # The sum of (1 - beta) beta^(t-s) over s = 1, ..., t.
        return self._average / np.float32(1 - self._decay**self._updates)

    def state(self) -> State:
        """For a checkpoint."""
        return {"average": self._average.copy(), "updates": np.array(self._updates)}

    def restore(self, state: State) -> None:
        """Puts back what ``state()`` gave."""
        self._average = state["average"].astype(np.float32)
        self._updates = int(state["updates"])
