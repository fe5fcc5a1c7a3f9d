"""torch's optimisers by the experiment's names, on one flat vector.

torch's own update functions are used, without its Optimizer class: that imports torch's compiler at the first step,
two seconds of every rank's start, and spends more on bookkeeping than a small model's step takes.
"""

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from fedhpc.optimizers import SGD, AdamW, Optimizer


class FlatOptimizer:
    """An optimiser of ``weights`` along ``gradient``, float32 [parameters] both; ``step()`` changes ``weights``."""

    def __init__(self, settings: Optimizer, weights: torch.Tensor, gradient: torch.Tensor) -> None:
        self._settings, self._weights, self._gradient = settings, weights, gradient
        self.reset()

    def reset(self) -> None:
        """As new: no momentum, no moments."""
        self.state: dict[str, torch.Tensor] = {}

    def step(self) -> None:
        """One step; without momentum and weight decay, the weights less rate times gradient."""
        settings = self._settings
        if not isinstance(settings, SGD):
            self._adaptive_step()
        elif settings.momentum == settings.weight_decay == 0:
            self._weights.add_(self._gradient, alpha=-settings.rate)
        else:
            momentum = [self.state.get("momentum")]
            sgd(
                [self._weights],
                [self._gradient],
                momentum,
                foreach=False,
                weight_decay=settings.weight_decay,
                momentum=settings.momentum,
                lr=settings.rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )
            if momentum[0] is not None:
                self.state["momentum"] = momentum[0]

    def _adaptive_step(self) -> None:
        settings = self._settings
        assert not isinstance(settings, SGD)
        if not self.state:
            self.state = {
                "mean": torch.zeros_like(self._weights),
                "square": torch.zeros_like(self._weights),
                "steps": torch.zeros(()),
            }
        (adamw if isinstance(settings, AdamW) else adam)(
            [self._weights],
            [self._gradient],
            [self.state["mean"]],
            [self.state["square"]],
            [],
            [self.state["steps"]],
            foreach=False,
            amsgrad=False,
            beta1=settings.betas[0],
            beta2=settings.betas[1],
            lr=settings.rate,
            weight_decay=settings.weight_decay,
            eps=settings.epsilon,
            maximize=False,
        )
