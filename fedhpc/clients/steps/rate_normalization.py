"""FedBuff's normalisation of the learning rate (Nguyen et al. 2022, section 5)."""

import torch

from fedhpc.clients.steps.chunk import Chunk


def fractions(chunk: Chunk, batch_size: int) -> torch.Tensor:
    """What part of the rate each step of each client takes, float32 [steps, clients]: the examples of its batch over
    ``batch_size``, the batch that clients are asked for, which may be more than any has."""
    return torch.tensor(chunk.filled, dtype=torch.float32, device=chunk.labels.device) / batch_size
