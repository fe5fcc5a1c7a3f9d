"""Steps of one client's torch module, by autograd."""

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.proximal import add_proximal
from fedhpc.models.dropout import give_noise
from fedhpc.models.flat import bind, flatten, views
from fedhpc.torch_optimizers import TorchOptimizer


class ModuleSteps:
    """Trains ``module``, whose parameters are views of ``weights``, float32 [1, parameters]."""

    def __init__(self, module: nn.Module, settings: ClientSettings) -> None:
        self.module = module
        self.weights = flatten(module).unsqueeze(0)
        bind(module, self.weights[0])
        self._settings = settings
        self._parameters = list(module.parameters())
        self._optimizer = TorchOptimizer(settings.optimizer, [parameter.detach() for parameter in self._parameters])

    def begin(self, start: torch.Tensor) -> None:
        """A client starts from ``start``, float32 [1, parameters], which must stay as it is while the client trains."""
        self.weights.copy_(start)
        self._optimizer.reset()
        self._start = list(views(self.module, start[0])) if self._settings.proximal else []

    def train(self, chunk: Chunk, between_steps: Callable[[], None]) -> None:
        """Takes the chunk's steps, and calls ``between_steps`` before each."""
        for step, (filled,) in enumerate(chunk.filled):
            between_steps()
            noise = None if chunk.noise is None else chunk.noise[step, 0, :filled]
            gradients = self._gradients(chunk.features[step, 0, :filled], chunk.labels[step, 0, :filled], noise)
            with torch.no_grad():
                if self._settings.proximal:
                    add_proximal(gradients, self._parameters, self._start, self._settings.proximal)
                self._optimizer.step(gradients)
            del gradients  # not to be kept while the next ones are computed

    def _gradients(
        self, features: torch.Tensor, labels: torch.Tensor, noise: torch.Tensor | None
    ) -> Sequence[torch.Tensor]:
        if noise is not None:
            give_noise(self.module, noise)
        with torch.enable_grad(), self._autocast(features):
            loss = cross_entropy(self.module(features), labels)
        return torch.autograd.grad(loss, self._parameters)

    def _autocast(self, features: torch.Tensor) -> torch.autocast:
        return torch.autocast(features.device.type, torch.bfloat16, enabled=self._settings.precision == "bf16")
