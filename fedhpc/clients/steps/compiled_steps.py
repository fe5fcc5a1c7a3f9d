"""Steps of one client's torch module whose whole gradient, forward and backward, torch compiles."""

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.module_steps import ModuleSteps
from fedhpc.models.dropout import give_noise

Gradients = Sequence[torch.Tensor]


class CompiledSteps(ModuleSteps):
    """As ModuleSteps. Each batch size is compiled at its first use, which takes a minute and a C++ compiler."""

    def __init__(self, module: nn.Module, settings: ClientSettings) -> None:
        super().__init__(module, settings)
        self._compiled: dict[torch.Size, Callable[..., Gradients]] = {}
        self._names = [name for name, _ in module.named_parameters()]

    def _gradients(self, features: torch.Tensor, labels: torch.Tensor, noise: torch.Tensor | None) -> Gradients:
        # Imported here: torch's compiler takes two seconds, which other forms need not spend.
        from torch.fx.experimental.proxy_tensor import make_fx

        arguments = ([weight.detach() for weight in self._parameters], features, labels, noise)
        if features.shape not in self._compiled:
            # A function that the trace calls: it cannot count a bound method's arguments.
            traced = make_fx(lambda *given: self._whole_gradient(*given))(*arguments)
            self._compiled[features.shape] = torch.compile(traced, fullgraph=True)
        return self._compiled[features.shape](*arguments)

    def _whole_gradient(
        self, weights: list[torch.Tensor], features: torch.Tensor, labels: torch.Tensor, noise: torch.Tensor | None
    ) -> Gradients:
        if noise is not None:
            give_noise(self.module, noise)
        weights = [weight.requires_grad_() for weight in weights]
        with torch.enable_grad(), self._autocast(features):
            scores = functional_call(self.module, dict(zip(self._names, weights, strict=True)), features)
            loss = cross_entropy(scores, labels)
        return torch.autograd.grad(loss, weights)
