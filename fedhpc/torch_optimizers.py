"""torch's optimisers by the experiment's names, on one flat parameter vector."""

import torch

from fedhpc.optimizers import SGD, Adam, AdamW, Optimizer


def make_optimizer(settings: Optimizer, parameter: torch.nn.Parameter) -> torch.optim.Optimizer:
    """The optimiser of ``parameter`` (float32 [parameters])."""
    match settings:
        case SGD():
            return torch.optim.SGD(
                [parameter], lr=settings.rate, momentum=settings.momentum, weight_decay=settings.weight_decay
            )
        case AdamW():
            kind: type[torch.optim.AdamW | torch.optim.Adam] = torch.optim.AdamW
        case Adam():
            kind = torch.optim.Adam
    return kind(
        [parameter],
        lr=settings.rate,
        betas=settings.betas,
        eps=settings.epsilon,
        weight_decay=settings.weight_decay,
    )
