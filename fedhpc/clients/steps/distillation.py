"""Distillation from a teacher network (Hard et al. 2023, algorithm 3, line 3).

The loss gains rho times the cross-entropy between the softmax of the teacher's logits and the student's, at temperature
1; of sentences, token by token. A teacher is a vector of weights of the same architecture; it drops nothing out and
does not learn.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Teachers:
    """A stack's teachers. ``weights``: float32 [clients, parameters], of a client without a teacher any finite ones, as
    its own are; ``strengths``: float32 [clients], rho, or 0 for a client without a teacher."""

    weights: torch.Tensor
    strengths: torch.Tensor


def soft_targets(scores: torch.Tensor, strengths: torch.Tensor) -> torch.Tensor:
    """rho times the teachers' probabilities, float32 [clients, batch, *places, classes], as targets of a cross-entropy
    beside the labels. ``scores``: the teachers' logits, of that shape; ``strengths``: float32 [clients]."""
    each = strengths.view(-1, *[1] * (scores.ndim - 1))
    return torch.softmax(scores, -1, dtype=torch.float32).mul_(each)
