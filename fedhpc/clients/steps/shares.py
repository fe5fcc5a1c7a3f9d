"""What an example counts in its client's mean loss, where batches are filled up to one size, or examples weighted."""

import torch

from fedhpc.clients.steps.chunk import Chunk


def shares(chunk: Chunk) -> torch.Tensor:
    """One over the rows of its batch that count, or its weight over theirs (FedCore's coresets), and 0 for those that
    fill up: float32 [steps, clients, batch, 1]."""
    filled = torch.tensor(chunk.filled, device=chunk.labels.device).unsqueeze(2)
    place = torch.arange(chunk.labels.shape[2], device=chunk.labels.device)
    if chunk.weights is not None:
        counted = chunk.weights * (place < filled)
        return (counted / counted.sum(2, keepdim=True).clamp(min=1)).unsqueeze(3)
    return ((place < filled) / filled.clamp(min=1)).unsqueeze(3)
