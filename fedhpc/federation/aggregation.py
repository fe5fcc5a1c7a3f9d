"""The server's step: the aggregated update is the gradient of a torch optimiser (Reddi et al. 2021)."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fedhpc.optimizers import Optimizer
from fedhpc.torch_optimizers import FlatOptimizer

Vector = NDArray[np.float32]


class Aggregator:
    """The global weights and the server optimiser."""

    def __init__(self, settings: Optimizer, weights: Vector) -> None:
        self._weights = torch.from_numpy(weights.copy())
        self._gradient = torch.zeros_like(self._weights)
        self._optimizer = FlatOptimizer(settings, self._weights, self._gradient)

    def step(self, deltas: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """The next version: one step along ``sum(weight * delta)``, summed in the order given.

        A delta is start minus end (Hard et al., Algorithm 1), so that the optimiser subtracts it like a gradient.
        """
        self._gradient.zero_()
        for delta, weight in zip(deltas, weights, strict=True):
            self._gradient.add_(torch.from_numpy(delta), alpha=weight)
        self._optimizer.step()
        return self.weights()

    def weights(self) -> Vector:
        """A copy of the current global weights."""
        copy: Vector = self._weights.numpy().copy()
        return copy

    def state(self) -> dict[str, NDArray[np.generic]]:
        """The weights and the optimiser's state, for a checkpoint."""
        return {"weights": self.weights()} | {
            name: value.numpy().copy() for name, value in self._optimizer.state.items()
        }

    def restore(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Puts back what ``state()`` gave."""
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
        self._weights.copy_(tensors.pop("weights"))
        self._optimizer.state = tensors
