"""The server's step: the aggregated update is the gradient of a torch optimiser (Reddi et al. 2021)."""

import numpy as np
import torch
from numpy.typing import NDArray

from fedhpc.optimizers import Optimizer
from fedhpc.torch_optimizers import TorchOptimizer

Vector = NDArray[np.float32]


class Aggregator:
    """The global weights and the server optimiser."""

    def __init__(self, settings: Optimizer, weights: Vector) -> None:
        self._weights = torch.from_numpy(weights.copy())
        self._optimizer = TorchOptimizer(settings, [self._weights])

    @torch.no_grad()
    def step(self, update: Vector) -> Vector:
        """The next version: one step along ``update``, the weighted sum of the clients' deltas.

        A delta is start minus end (Hard et al., Algorithm 1), so that the optimiser subtracts it like a gradient.
        """
        self._optimizer.step([torch.from_numpy(update)])
        return self.weights()

    def weights(self) -> Vector:
        """A copy of the current global weights."""
        copy: Vector = self._weights.numpy().copy()
        return copy

    def state(self) -> dict[str, NDArray[np.generic]]:
        """The weights and the optimiser's state, for a checkpoint."""
        return {"weights": self.weights()} | {
            name: value.numpy().copy() for name, (value,) in self._optimizer.state.items()
        }

    def restore(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Puts back what ``state()`` gave."""
        self._weights.copy_(torch.from_numpy(np.array(state["weights"])))
        for name, (value,) in self._optimizer.state.items():
            value.copy_(torch.from_numpy(np.array(state[name])))
