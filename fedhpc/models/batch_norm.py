"""Batch normalisation (Ioffe and Szegedy 2015) that can also train where a batch has one value of each channel.

Such a value has no variance, and torch refuses it. A client's last batch may well be one example whose picture has
become one pixel; it is then normalised by the running statistics, which stay as they are.
"""

import torch
from torch import nn
from torch.nn import functional


class BatchNorm1d(nn.BatchNorm1d):
    """Takes float32 [batch, channels] or [batch, channels, length]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _by_running_statistics(self, x) if _is_one_value(self, x) else super().forward(x)


class BatchNorm2d(nn.BatchNorm2d):
    """Takes float32 [batch, channels, height, width]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _by_running_statistics(self, x) if _is_one_value(self, x) else super().forward(x)


class BatchNorm3d(nn.BatchNorm3d):
    """Takes float32 [batch, channels, depth, height, width]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _by_running_statistics(self, x) if _is_one_value(self, x) else super().forward(x)


_AnyBatchNorm = BatchNorm1d | BatchNorm2d | BatchNorm3d


def _is_one_value(layer: _AnyBatchNorm, x: torch.Tensor) -> bool:
    return layer.training and x.numel() == x.shape[1]


def _by_running_statistics(layer: _AnyBatchNorm, x: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias, eps=layer.eps)
