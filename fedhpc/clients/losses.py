"""The losses of the tasks, from logits with the classes last.

``classification``: the cross-entropy of each example's class. ``next_words``: that of each token, as a mean over the
labelled ones of a batch (Hard et al. 2023, section 5.1: padding is left out). ``segmentation``: 1 less the Dice score
of the class probabilities, as FLamby has it for Fed-IXI (Ogier du Terrail et al. 2022): of each example and class
2 sum(p g) / (sum(p) + sum(g)) over the voxels, and the mean over both.
"""

from typing import Literal

import torch
from torch.nn.functional import cross_entropy

from fedhpc.clients.objective import Kind

UNLABELLED = -1
"""In place of a label, where a token or voxel has none."""

_NO_ZERO = 1e-9
"""FLamby's, so that a class which is neither there nor expected divides nothing by zero."""


def batch_loss(kind: Kind, scores: torch.Tensor, labels: torch.Tensor, soft: torch.Tensor | None) -> torch.Tensor:
    """What a step takes the gradient of: the mean loss of a batch, 0 where nothing in it is labelled.

    ``scores``: logits [batch, *places, classes]; ``labels``: int64 [batch, *places]. ``soft``: what ``soft_targets``
    gave for these examples, [batch, *places, classes], or None; segmentation takes none.
    """
    match kind:
        case "classification":
            return distilled_cross_entropy(scores, labels, soft, "mean")
        case "next_words":
            labelled = labels != UNLABELLED
            losses = distilled_cross_entropy(scores, labels, soft, "none")
            return (losses * labelled).sum() / labelled.sum().clamp(min=1)
        case "segmentation":
            return dice_losses(scores, labels).mean()


def example_losses(kind: Kind, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Each example's own loss, float32 [batch]: of tokens the mean over those that are labelled."""
    match kind:
        case "classification":
            return cross_entropy(scores, labels, reduction="none")
        case "next_words":
            labelled = (labels != UNLABELLED).flatten(1)
            losses = distilled_cross_entropy(scores, labels, None, "none").flatten(1)
            return (losses * labelled).sum(1) / labelled.sum(1).clamp(min=1)
        case "segmentation":
            return dice_losses(scores, labels)


def summed_loss(kind: Kind, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The sum of what an evaluation's loss is the mean of: of the losses of examples, or of labelled tokens."""
    if kind == "segmentation":
        return dice_losses(scores, labels).sum()
    return cross_entropy(scores.flatten(0, -2), labels.flatten(), ignore_index=UNLABELLED, reduction="sum")


def distilled_cross_entropy(
    scores: torch.Tensor, labels: torch.Tensor, soft: torch.Tensor | None, reduction: Literal["mean", "none"]
) -> torch.Tensor:
    """The students' loss of logits ``scores`` [batch, *places, classes]: to the ``labels`` and, unless it is None, to
    what ``soft_targets`` gave for these examples. The mean is over all places, or where ``reduction`` is none the shape
    is that of the labels; there a place without a label has at most its teacher's part, which counts for nothing."""
    flat = scores.flatten(0, -2)
    loss = cross_entropy(flat, labels.flatten(), ignore_index=UNLABELLED, reduction=reduction)
    if soft is not None:
        loss = loss + cross_entropy(flat, soft.flatten(0, -2), reduction=reduction)
    return loss if reduction == "mean" else loss.view(labels.shape)


def dice_losses(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """1 less the Dice score of each example, the mean over its classes: float32 [batch]. Voxels without a label are
    left out."""
    labelled = (labels != UNLABELLED).unsqueeze(-1)
    probabilities = torch.softmax(scores, -1, dtype=torch.float32) * labelled
    classes = torch.arange(scores.shape[-1], device=labels.device)
    expected = (labels.unsqueeze(-1) == classes).to(probabilities.dtype)
    places = tuple(range(1, labels.ndim))
    both = 2 * (probabilities * expected).sum(places)
    return 1 - (both / (probabilities.sum(places) + expected.sum(places) + _NO_ZERO)).mean(1)
