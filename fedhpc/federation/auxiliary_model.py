"""FeAST-on-MSG's auxiliary model as the output model (Hard et al. 2023, section 2.3 and Algorithm 2)."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
State = dict[str, NDArray[np.generic]]


class AuxiliaryModel:
    """a_t, float32 [parameters], from a_0 = w_0.

    ``rate`` is eta_g and ``kappa`` eta_a / eta_g; ``decay`` is beta. ``averages``: whether the rates apply to a round's
    mean delta (equations 1 and 2) or to its sum.
    """

    def __init__(self, rate: float, kappa: float, decay: float, averages: bool, initial: Vector) -> None:
        self._rate, self._kappa, self._decay, self._averages = rate, kappa, decay, averages
        self._model = initial.copy()

    def advance(self, start: Vector, delta: Vector, clients: int) -> None:
        """Takes the next round: ``start`` is w_t, ``delta`` the sum over its ``clients`` clients' deltas."""
        rate = self._rate / clients if self._averages else self._rate
        # Line 16: w+ = w_t - eta_g/b Delta+. Line 17: a = beta (a - eta_a/b Delta+) + (1 - beta) w+.
        plus = start - np.float32(rate) * delta
        self._model -= np.float32(rate * self._kappa) * delta
        self._model *= np.float32(self._decay)
        self._model += np.float32(1 - self._decay) * plus

    def model(self) -> Vector:
        """A copy of the output model."""
        return self._model.copy()

    def state(self) -> State:
        """For a checkpoint."""
        return {"auxiliary": self._model.copy()}

    def restore(self, state: State) -> None:
        """Puts back what ``state()`` gave."""
        self._model = state["auxiliary"].astype(np.float32)
