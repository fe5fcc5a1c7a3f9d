"""FedAT's models (Chai et al. 2021): one for each tier, and the global one that they make together."""

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.updates import TierStep

Vector = NDArray[np.float32]
State = dict[str, NDArray[np.generic]]


class TierModels:
    """float32 [parameters + statistics] each. Before its first update a tier's model is the ``initial`` one."""

    def __init__(self, initial: Vector) -> None:
        self._initial = initial.copy()
        self._models: dict[int, Vector] = {}

    def advance(self, step: TierStep, model: Vector) -> Vector:
        """The new global model, where ``model`` is what the step's tier has now."""
        self._models[step.tier] = model
        total = np.zeros_like(model)
        for tier, share in enumerate(step.shares):
            total += np.float32(share) * self._models.get(tier, self._initial)
        return total

    def state(self) -> State:
        """The models of tiers that have one of their own, for a checkpoint."""
        return {str(tier): model.copy() for tier, model in self._models.items()}

    def restore(self, state: State) -> None:
        """Puts back what ``state()`` gave."""
        self._models = {int(tier): model.astype(np.float32) for tier, model in state.items()}
