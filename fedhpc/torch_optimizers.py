"""The experiment's optimisers, on tensors that their owner updates in place.

torch's own update functions are used where there are any, without its Optimizer class: that imports torch's compiler
at the first step, two seconds of every rank's start, and spends more on bookkeeping than a small model's step takes.
"""

from collections.abc import Sequence

import torch
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from fedhpc.optimizers import SGD, Adagrad, AdamW, Optimizer, Yogi


class TorchOptimizer:
    """An optimiser of ``weights``, float32 tensors that ``step()`` changes in place.

    Where their leading axis counts clients that are trained together, a step may concern the first few only: all of
    them have then taken equally many steps.
    """

    def __init__(self, settings: Optimizer, weights: Sequence[torch.Tensor]) -> None:
        self._settings, self._weights = settings, list(weights)
        names: tuple[str, ...]
        self._first_square = 0.0
        match settings:
            case SGD():
                names = ("momentum",) if settings.momentum else ()
            case Adagrad():
                names = ("mean", "square") if isinstance(settings, Yogi) else ("square",)
                self._first_square = settings.first_square
                # torch counts Adagrad's steps for a decay of its rate that is not used here; and reads the count, which
                # on the CPU is no wait for a GPU.
                self._unused_counts = [torch.zeros(()) for _ in self._weights]
            case _:
                names = ("mean", "square", "steps")
        # On a GPU Adam's count lives there, so that a captured step can be replayed.
        self._on_device = bool(self._weights) and self._weights[0].is_cuda
        device = self._weights[0].device if self._on_device else torch.device("cpu")
        self.state = {
            name: [torch.zeros((), device=device) if name == "steps" else torch.zeros_like(w) for w in self._weights]
            for name in names
        }
        self.reset()

    def reset(self) -> None:
        """As new: no momentum, the first moments."""
        for name, tensors in self.state.items():
            for tensor in tensors:
                tensor.fill_(self._first_square if name == "square" else 0.0)

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
        match settings:
            case SGD(momentum=0.0):
                for weight, gradient in zip(weights, gradients, strict=True):
                    if settings.weight_decay:
                        gradient = gradient.add(weight, alpha=settings.weight_decay)
                    if fractions is None:
                        weight.add_(gradient, alpha=-settings.rate)
                    else:
                        own = fractions.view(-1, *[1] * (gradient.dim() - 1))
                        weight.addcmul_(gradient, own, value=-settings.rate)
            case SGD():
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
            case Yogi():
                _yogi(settings, weights, gradients, state["mean"], state["square"])
            case Adagrad():
                adagrad(
                    weights,
                    list(gradients),
                    state["square"],
                    self._unused_counts,
                    foreach=False,
                    lr=settings.rate,
                    weight_decay=0.0,
                    lr_decay=0.0,
                    eps=settings.epsilon,
                    maximize=False,
                )
            case _:
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


def _yogi(
    settings: Yogi,
    weights: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    means: Sequence[torch.Tensor],
    squares: Sequence[torch.Tensor],
) -> None:
    """Reddi et al. 2021, Algorithm 2, FedYogi: v changes by a share of the gradient's square, whatever v is."""
    beta1, beta2 = settings.betas
    for weight, gradient, mean, square in zip(weights, gradients, means, squares, strict=True):
        mean.lerp_(gradient, 1 - beta1)
        squared = gradient * gradient
        square.addcmul_(squared, torch.sign(square - squared), value=beta2 - 1)
        weight.addcdiv_(mean, square.sqrt().add_(settings.epsilon), value=-settings.rate)
