"""Steps of many clients' fully connected models at once, by the gradient's closed form."""

from collections.abc import Callable

import torch
from torch import nn

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.proximal import add_proximal
from fedhpc.clients.steps.shares import shares
from fedhpc.models.dense import DenseGradient
from fedhpc.models.flat import bind, flatten
from fedhpc.torch_optimizers import TorchOptimizer


class DenseSteps:
    """Trains up to ``clients`` models, rows of ``weights``, float32 [clients, parameters]; ``module`` views row 0."""

    def __init__(self, module: nn.Module, settings: ClientSettings, clients: int) -> None:
        self.module = module
        self.weights = flatten(module).repeat(clients, 1)
        bind(module, self.weights[0])
        self._gradient = torch.zeros_like(self.weights)
        self._find_gradient = DenseGradient(module, self.weights, self._gradient)
        self._optimizer = TorchOptimizer(settings.optimizer, [self.weights])
        self._proximal = settings.proximal
        classes = list(module.parameters())[-1].numel()
        self._one_hot = torch.eye(classes)

    def begin(self, start: torch.Tensor) -> None:
        """Clients start from the rows of ``start``, float32 [their number, parameters], which must stay as they are
        while they train."""
        self.weights[: len(start)].copy_(start)
        self._optimizer.reset()
        self._start = start

    def train(self, chunk: Chunk, between_steps: Callable[[], None]) -> None:
        """Takes the chunk's steps, and calls ``between_steps`` before each."""
        share = shares(chunk)
        targets = self._one_hot[chunk.labels].mul_(share)
        features = chunk.features.flatten(3)
        for step, clients in enumerate(chunk.active):
            between_steps()
            self._find_gradient(features[step, :clients], targets[step, :clients], share[step, :clients])
            gradient = self._gradient[:clients]
            if self._proximal:
                add_proximal([gradient], [self.weights[:clients]], [self._start[:clients]], self._proximal)
            self._optimizer.step([gradient], clients)
