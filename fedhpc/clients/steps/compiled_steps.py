"""Steps of one client's torch module whose whole gradient, forward and backward, torch compiles."""

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.func import functional_call

from fedhpc.clients.losses import batch_loss
from fedhpc.clients.objective import Kind
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.module_steps import ModuleSteps
from fedhpc.models.dropout import give_noise

Gradients = Sequence[torch.Tensor]


class CompiledSteps(ModuleSteps):
    """As ModuleSteps. Each batch size, with a teacher and without, is compiled at its first use, which takes a minute
    and a C++ compiler. The teacher's own forward pass is not compiled."""

    def __init__(self, module: nn.Module, settings: ClientSettings, kind: Kind = "classification") -> None:
        super().__init__(module, settings, kind)
        self._compiled: dict[tuple[torch.Size, bool], Callable[..., Gradients]] = {}
        self._names = [name for name, _ in module.named_parameters()]

    def _gradients(
        self, features: torch.Tensor, labels: torch.Tensor, noise: torch.Tensor | None, soft: torch.Tensor | None
    ) -> Gradients:
        # Imported here: torch's compiler takes two seconds, which other forms need not spend.
        from torch.fx.experimental.proxy_tensor import make_fx

        arguments = ([weight.detach() for weight in self._parameters], features, labels, noise, soft)
        key = (features.shape, soft is None)
        if key not in self._compiled:
            # A function that the trace calls: it cannot count a bound method's arguments.
            traced = make_fx(lambda *given: self._whole_gradient(*given))(*arguments)
            self._compiled[key] = torch.compile(traced, fullgraph=True)
        return self._compiled[key](*arguments)

    def _whole_gradient(
        self,
        weights: list[torch.Tensor],
        features: torch.Tensor,
        labels: torch.Tensor,
        noise: torch.Tensor | None,
        soft: torch.Tensor | None,
    ) -> Gradients:
        if noise is not None:
            give_noise(self.module, noise)
        weights = [weight.requires_grad_() for weight in weights]
        with torch.enable_grad(), self._autocast(features):
            scores = functional_call(self.module, dict(zip(self._names, weights, strict=True)), features)
            loss = batch_loss(self._kind, scores, labels, soft)
        return torch.autograd.grad(loss, weights)
