"""A model's weights as one flat vector: parameter after parameter, each in the order of its memory.

A parameter that is kept channels-last therefore lies channels-last in the vector too. Aggregation, optimisers and
norms treat all weights alike, so that the order is of no consequence to them.
"""

from collections.abc import Iterator

import torch
from torch import nn


def flatten(module: nn.Module) -> torch.Tensor:
    """A copy of the module's parameters, float32 [parameters]."""
    return torch.cat([_in_memory_order(parameter.detach()) for parameter in module.parameters()])


def bind(module: nn.Module, weights: torch.Tensor) -> None:
    """Makes the module's parameters views of ``weights``, float32 [parameters]."""
    for parameter, view in zip(module.parameters(), views(module, weights), strict=True):
        parameter.data = view


def views(module: nn.Module, vector: torch.Tensor) -> Iterator[torch.Tensor]:
    """The pieces of ``vector``, float32 [parameters], each with a parameter's shape and order of memory."""
    position = 0
    for parameter in module.parameters():
        piece = vector[position : position + parameter.numel()]
        yield piece.as_strided(parameter.shape, parameter.stride(), piece.storage_offset())
        position += parameter.numel()


def _in_memory_order(parameter: torch.Tensor) -> torch.Tensor:
    strides = parameter.stride()
    order = sorted(range(parameter.dim()), key=lambda axis: (-strides[axis], axis))
    return parameter.permute(order).reshape(-1)
