"""The server's step: the aggregated update is the gradient of a torch optimiser (Reddi et al. 2021)."""

import numpy as np
import torch
from numpy.typing import NDArray

from fedhpc.optimizers import Optimizer
from fedhpc.torch_optimizers import TorchOptimizer

Vector = NDArray[np.float32]
State = dict[str, NDArray[np.generic]]


class Aggregator:
    """The global weights and the server optimiser."""

    def __init__(self, settings: Optimizer, weights: Vector) -> None:
        self._settings = settings
        self._weights = torch.from_numpy(weights.copy())
        self._optimizer = TorchOptimizer(settings, [self._weights])

    @torch.no_grad()
    def step(self, update: Vector) -> Vector:
        """The next version: one step along ``update``, the weighted sum of the clients' deltas.

        A delta is start minus end (Hard et al., Algorithm 1), so that the optimiser subtracts it like a gradient.
        """
        self._optimizer.step([torch.from_numpy(update)])
        return self.weights()

    @torch.no_grad()
    def step_aside(self, weights: Vector, state: State, update: Vector) -> Vector:
        """Where one step along ``update`` would lead from ``weights``, with the optimiser's state as it was then. The
        optimiser itself stays as it is."""
        moved = torch.from_numpy(weights.copy())
        optimizer = TorchOptimizer(self._settings, [moved])
        _put_back(optimizer, state)
        optimizer.step([torch.from_numpy(update)])
        result: Vector = moved.numpy()
        return result

    def weights(self) -> Vector:
        """A copy of the current global weights."""
        copy: Vector = self._weights.numpy().copy()
        return copy

    def state(self) -> State:
        """The weights and the optimiser's state, for a checkpoint."""
        return {"weights": self.weights()} | self.optimizer_state()

    def optimizer_state(self) -> State:
        """A copy of the optimiser's state alone."""
        return {name: value.numpy().copy() for name, (value,) in self._optimizer.state.items()}

    def restore(self, state: State) -> None:
        """Puts back what ``state()`` gave."""
        self._weights.copy_(torch.from_numpy(np.array(state["weights"])))
        _put_back(self._optimizer, state)


def _put_back(optimizer: TorchOptimizer, state: State) -> None:
    for name, (value,) in optimizer.state.items():
        value.copy_(torch.from_numpy(np.array(state[name])))
