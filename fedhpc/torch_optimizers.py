"""torch's optimisers by the experiment's names, on tensors that their owner updates in place.

torch's own update functions are used, without its Optimizer class: that imports torch's compiler at the first step,
two seconds of every rank's start, and spends more on bookkeeping than a small model's step takes.
"""

from collections.abc import Sequence

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from fedhpc.optimizers import SGD, AdamW, Optimizer


class TorchOptimizer:
    """An optimiser of ``weights``, float32 tensors that ``step()`` changes in place.

    Where their leading axis counts clients that are trained together, a step may concern the first few only: all of
    them have then taken equally many steps.
    """

    def __init__(self, settings: Optimizer, weights: Sequence[torch.Tensor]) -> None:
        self._settings, self._weights = settings, list(weights)
        names: tuple[str, ...] = ("mean", "square")
        if isinstance(settings, SGD):
            names = ("momentum",) if settings.momentum else ()
        self.state = {name: [torch.zeros_like(weight) for weight in self._weights] for name in names}
        # On a GPU the count lives there, so that a captured step can be replayed.
        self._on_device = bool(self._weights) and self._weights[0].is_cuda
        if not isinstance(settings, SGD):
            device = self._weights[0].device if self._on_device else "cpu"
            self.state["steps"] = [torch.zeros((), device=device) for _ in self._weights]

    def reset(self) -> None:
        """As new: no momentum, no moments."""
        for tensors in self.state.values():
            for tensor in tensors:
                tensor.zero_()

    def step(
        self,
        gradients: Sequence[torch.Tensor],
        clients: int | None = None,
        fractions: torch.Tensor | None = None,
    ) -> None:
        """One step along ``gradients``, shaped like the weights, or like those of the first ``clients``.

        ``fractions``, for SGD without momentum: what part of the rate each client takes, float32 [clients], or [1] for
        weights without a leading axis of clients.
        """
        settings, weights, state = self._settings, self._weights, self.state
        if clients is not None and clients < len(weights[0]):
            weights = [weight[:clients] for weight in weights]
            state = {
                name: tensors if name == "steps" else [tensor[:clients] for tensor in tensors]
                for name, tensors in state.items()
            }
        if not isinstance(settings, SGD):
            (adamw if isinstance(settings, AdamW) else adam)(
                weights,
                list(gradients),
                state["mean"],
                state["square"],
                [],
                state["steps"],
                foreach=False,
                capturable=self._on_device,
                amsgrad=False,
                beta1=settings.betas[0],
                beta2=settings.betas[1],
                lr=settings.rate,
                weight_decay=settings.weight_decay,
                eps=settings.epsilon,
                maximize=False,
            )
        elif not settings.momentum:
            for weight, gradient in zip(weights, gradients, strict=True):
                if settings.weight_decay:
                    gradient = gradient.add(weight, alpha=settings.weight_decay)
                if fractions is None:
                    weight.add_(gradient, alpha=-settings.rate)
                else:
                    own = fractions.view(-1, *[1] * (gradient.dim() - 1))
                    weight.addcmul_(gradient, own, value=-settings.rate)
        else:
            sgd(
                weights,
                list(gradients),
                list(state["momentum"]),
                foreach=False,
                weight_decay=settings.weight_decay,
                momentum=settings.momentum,
                lr=settings.rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )
