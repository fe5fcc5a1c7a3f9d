"""What an example, or a token, counts in its client's mean loss, where batches are filled up to one size, or examples
weighted."""

import torch

from fedhpc.clients.losses import UNLABELLED
from fedhpc.clients.steps.chunk import Chunk


def shares(chunk: Chunk) -> torch.Tensor:
    """One over the rows of its batch that count, or its weight over theirs (FedCore's coresets), and 0 for those that
    fill up: float32 [steps, clients, batch, 1]. Of labelled places one over those of the batch that count, and 0 for
    those without a label: float32 [steps, clients, batch, *places, 1]."""
    filled = torch.tensor(chunk.filled, device=chunk.labels.device).unsqueeze(2)
    place = torch.arange(chunk.labels.shape[2], device=chunk.labels.device)
    if chunk.labels.ndim > 3:
        rows = (place < filled).view(*chunk.labels.shape[:3], *[1] * (chunk.labels.ndim - 3))
        counted = (rows & (chunk.labels != UNLABELLED)).flatten(2)
        return (counted / counted.sum(2, keepdim=True).clamp(min=1)).view(*chunk.labels.shape, 1)
    if chunk.weights is not None:
        counted = chunk.weights * (place < filled)
        return (counted / counted.sum(2, keepdim=True).clamp(min=1)).unsqueeze(3)
    return ((place < filled) / filled.clamp(min=1)).unsqueeze(3)
