"""FedProx's proximal term (Li et al. 2020, equation 2)."""

from collections.abc import Sequence

import torch


def add_proximal(
    gradients: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], starts: Sequence[torch.Tensor], mu: float
) -> None:
    """Adds to each gradient, in place, that of mu/2 |w - w_start|^2."""
    for gradient, weight, start in zip(gradients, weights, starts, strict=True):
        gradient.add_(weight - start, alpha=mu)
