"""A model as one flat vector: parameter after parameter, each in the order of its memory, then the running statistics.

A parameter that is kept channels-last therefore lies channels-last in the vector too. Aggregation, optimisers and
norms treat all weights alike, so that the order is of no consequence to them. The statistics of batch normalisation,
its running means and variances, are no weights: they are the vector's last entries, so that all who treat weights can
leave them aside. What else a module keeps in buffers is a constant, and no part of the vector.
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase


def flatten(module: nn.Module) -> torch.Tensor:
    """A copy of the module's parameters and statistics, float32 [parameters + statistics]."""
    return torch.cat([_in_memory_order(tensor.detach()) for tensor in _tensors(module)])


def bind(module: nn.Module, weights: torch.Tensor) -> None:
    """Makes the module's parameters and statistics views of ``weights``, float32 [parameters + statistics]."""
    for tensor, view in zip(_tensors(module), views(module, weights), strict=True):
        tensor.data = view


def views(module: nn.Module, vector: torch.Tensor) -> Iterator[torch.Tensor]:
    """The pieces of ``vector``, float32 [parameters + statistics], each with the shape and order of memory of a
    parameter or, after all of these, of a statistic."""
    position = 0
    for tensor in _tensors(module):
        piece = vector[position : position + tensor.numel()]
        yield piece.as_strided(tensor.shape, tensor.stride(), piece.storage_offset())
        position += tensor.numel()


def count_statistics(module: nn.Module) -> int:
    """How many of the vector's last entries are statistics."""
    return sum(statistic.numel() for statistic in _statistics(module))


def _statistics(module: nn.Module) -> list[torch.Tensor]:
    # torch also counts the batches, in whole numbers, for an average that no model here takes.
    layers = [layer for layer in module.modules() if isinstance(layer, _NormBase)]
    found = [statistic for layer in layers for statistic in (layer.running_mean, layer.running_var)]
    return [statistic for statistic in found if statistic is not None]


def _tensors(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *_statistics(module)]


def _in_memory_order(tensor: torch.Tensor) -> torch.Tensor:
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda axis: (-strides[axis], axis))
    return tensor.permute(order).reshape(-1)
