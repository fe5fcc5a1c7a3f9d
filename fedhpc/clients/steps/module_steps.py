"""Steps of one client's torch module, by autograd."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import islice

import torch
from torch import nn

from fedhpc.clients.coreset import input_gradients, last_layer
from fedhpc.clients.losses import batch_loss, example_losses
from fedhpc.clients.objective import Kind
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.distillation import Teachers, soft_targets
from fedhpc.clients.steps.proximal import add_proximal
from fedhpc.clients.steps.rate_normalization import fractions
from fedhpc.clients.steps.shares import shares
from fedhpc.models.dropout import give_noise
from fedhpc.models.flat import bind, flatten, views
from fedhpc.torch_optimizers import TorchOptimizer


class ModuleSteps:
    """Trains ``module``, whose parameters and running statistics are views of ``weights``, float32 [1, parameters +
    statistics], by the loss of a task of this ``kind``. The optimiser and the proximal term are the parameters'; the
    statistics follow the batches, of which only the rows that count are seen.

    Where ``watched`` is a list, each step adds its examples' gradients at the last layer's input, float32 [filled,
    inputs], which its own forward pass has made known (FedCore, section 4.3).
    """

    def __init__(self, module: nn.Module, settings: ClientSettings, kind: Kind = "classification") -> None:
        self.module = module
        self._kind: Kind = kind
        self.weights = flatten(module).unsqueeze(0)
        bind(module, self.weights[0])
        self.watched: list[torch.Tensor] | None = None
        self._settings = settings
        self._parameters = list(module.parameters())
        self._optimizer = TorchOptimizer(settings.optimizer, [parameter.detach() for parameter in self._parameters])
        self._teacher = deepcopy(module).eval().requires_grad_(False) if settings.distillation else None

    def begin(self, start: torch.Tensor, teachers: Teachers | None) -> None:
        """A client starts from ``start``, float32 [1, parameters + statistics], and learns from the one of
        ``teachers`` too. Both must stay as they are while the client trains."""
        self.weights.copy_(start)
        self._optimizer.reset()
        self._teachers = teachers
        if self._teacher is not None and teachers is not None:
            bind(self._teacher, teachers.weights[0])
        starts = islice(views(self.module, start[0]), len(self._parameters))
        self._start = list(starts) if self._settings.proximal else []

    def train(self, chunk: Chunk, between_steps: Callable[[], None]) -> None:
        """Takes the chunk's steps, and calls ``between_steps`` before each."""
        fraction = None
        if self._settings.rate_normalization:
            fraction = fractions(chunk, self._settings.batch_size)
        share = None if chunk.weights is None else shares(chunk)
        for step, (filled,) in enumerate(chunk.filled):
            between_steps()
            features, labels = chunk.features[step, 0, :filled], chunk.labels[step, 0, :filled]
            noise = None if chunk.noise is None else chunk.noise[step, 0, :filled]
            if share is None:
                gradients = self._gradients(features, labels, noise, self._soft_targets(features))
            else:
                gradients = self._weighted_gradients(features, labels, noise, share[step, 0, :filled, 0])
            with torch.no_grad():
                if self._settings.proximal:
                    add_proximal(gradients, self._parameters, self._start, self._settings.proximal)
                self._optimizer.step(gradients, fractions=None if fraction is None else fraction[step])
            del gradients  # not to be kept while the next ones are computed

    def _soft_targets(self, features: torch.Tensor) -> torch.Tensor | None:
        """[batch, *places, classes], or None where there is no teacher."""
        if self._teacher is None or self._teachers is None:
            return None
        with torch.no_grad(), self._autocast(features):
            scores = self._teacher(features)
        return soft_targets(scores.unsqueeze(0), self._teachers.strengths)[0]

    def _gradients(
        self, features: torch.Tensor, labels: torch.Tensor, noise: torch.Tensor | None, soft: torch.Tensor | None
    ) -> Sequence[torch.Tensor]:
        if noise is not None:
            give_noise(self.module, noise)
        with torch.enable_grad(), self._autocast(features):
            scores = self.module(features)
            loss = batch_loss(self._kind, scores, labels, soft)
        if self.watched is not None:
            self.watched.append(input_gradients(scores.detach(), labels, last_layer(self.module).weight))
        return torch.autograd.grad(loss, self._parameters)

    def _weighted_gradients(
        self, features: torch.Tensor, labels: torch.Tensor, noise: torch.Tensor | None, share: torch.Tensor
    ) -> Sequence[torch.Tensor]:
        if noise is not None:
            give_noise(self.module, noise)
        with torch.enable_grad(), self._autocast(features):
            losses = example_losses(self._kind, self.module(features), labels)
            loss = (losses * share).sum()
        return torch.autograd.grad(loss, self._parameters)

    def _autocast(self, features: torch.Tensor) -> torch.autocast:
        return torch.autocast(features.device.type, torch.bfloat16, enabled=self._settings.precision == "bf16")
