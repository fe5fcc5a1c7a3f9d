"""Steps of many clients' fully connected models at once, by the gradient's closed form."""

from collections.abc import Callable

import torch
from torch import nn

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.distillation import Teachers, soft_targets
from fedhpc.clients.steps.proximal import add_proximal
from fedhpc.clients.steps.rate_normalization import fractions
from fedhpc.clients.steps.shares import shares
from fedhpc.models.dense import DenseGradient, dense_scores
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
        self._settings = settings
        classes = list(module.parameters())[-1].numel()
        self._one_hot = torch.eye(classes)

    def begin(self, start: torch.Tensor, teachers: Teachers | None) -> None:
        """Clients start from the rows of ``start``, float32 [their number, parameters], and learn from ``teachers``
        too. Both must stay as they are while they train."""
        self.weights[: len(start)].copy_(start)
        self._optimizer.reset()
        self._start, self._teachers = start, teachers

    def train(self, chunk: Chunk, between_steps: Callable[[], None]) -> None:
        """Takes the chunk's steps, and calls ``between_steps`` before each."""
        share, features = shares(chunk), chunk.features.flatten(3)
        targets = self._one_hot[chunk.labels]
        if self._teachers is not None:
            targets += self._soft_targets(features, self._teachers)
        targets *= share
        if self._teachers is not None:
            share = share * (1 + self._teachers.strengths[: features.shape[1], None, None])
        fraction = None
        if self._settings.rate_normalization:
            fraction = fractions(chunk, self._settings.batch_size)
        for step, clients in enumerate(chunk.active):
            between_steps()
            self._find_gradient(features[step, :clients], targets[step, :clients], share[step, :clients])
            gradient = self._gradient[:clients]
            if mu := self._settings.proximal:
                add_proximal([gradient], [self.weights[:clients]], [self._start[:clients]], mu)
            self._optimizer.step([gradient], clients, None if fraction is None else fraction[step, :clients])

    def _soft_targets(self, features: torch.Tensor, teachers: Teachers) -> torch.Tensor:
        """Those of a whole chunk, [steps, clients, batch, classes]: each teacher sees its client's batches as one."""
        steps, clients, batch, inputs = features.shape
        by_client = features.transpose(0, 1).reshape(clients, steps * batch, inputs)
        scores = dense_scores(self.module, teachers.weights[:clients], by_client)
        soft = soft_targets(scores, teachers.strengths[:clients])
        return soft.view(clients, steps, batch, -1).transpose(0, 1)
