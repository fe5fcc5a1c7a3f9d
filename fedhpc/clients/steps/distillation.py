"""Distillation from a teacher network (Hard et al. 2023, algorithm 3, line 3).

The loss gains rho times the cross-entropy between the softmax of the teacher's logits and the student's, at temperature
1. A teacher is a vector of weights of the same architecture; it drops nothing out and does not learn.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import cross_entropy


@dataclass(frozen=True)
class Teachers:
    """A stack's teachers. ``weights``: float32 [clients, parameters], of a client without a teacher any finite ones, as
    its own are; ``strengths``: float32 [clients], rho, or 0 for a client without a teacher."""

    weights: torch.Tensor
    strengths: torch.Tensor


def soft_targets(scores: torch.Tensor, strengths: torch.Tensor) -> torch.Tensor:
    """rho times the teachers' probabilities, float32 [clients, batch, classes], as targets of a cross-entropy beside
    the labels. ``scores``: the teachers' logits, of that shape; ``strengths``: float32 [clients]."""
    return torch.softmax(scores, 2, dtype=torch.float32).mul_(strengths[:, None, None])


def distilled_cross_entropy(
    scores: torch.Tensor, labels: torch.Tensor, soft: torch.Tensor | None, reduction: Literal["mean", "none"]
) -> torch.Tensor:
    """The students' loss of logits ``scores`` [examples, classes]: to the ``labels`` and, unless it is None, to what
    ``soft_targets`` gave for these examples."""
    loss = cross_entropy(scores, labels, reduction=reduction)
    return loss if soft is None else loss + cross_entropy(scores, soft, reduction=reduction)
