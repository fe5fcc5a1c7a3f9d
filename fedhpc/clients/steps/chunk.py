"""Some steps of a stack of clients, as data."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Chunk:
    """The next mini-batches of a stack, the client with the most steps first.

    ``active[j]``: clients that take step j, the first few; never growing. ``filled[j][c]``: rows of client c's batch
    that count; the rest fill up. ``features``: [steps, clients, batch, *shape]; ``labels``: int64 [steps, clients,
    batch, *places]; ``noise``: random bytes for dropout, uint8 [steps, clients, batch, total], or None where the model
    has none. ``weights``: what an example counts among those of its batch, float32 [steps, clients, batch], or None
    where all count alike. What lies beyond a step's active clients is anything.
    """

    active: list[int]
    filled: list[list[int]]
    features: torch.Tensor
    labels: torch.Tensor
    noise: torch.Tensor | None
    weights: torch.Tensor | None = None
