"""ResNet-18 (He et al. 2016, table 1) with group normalisation (Wu and He 2018) in place of batch normalisation.

Reddi et al. 2021 train it on CIFAR-100, with two groups in each normalisation, and Hard et al. after them. The code
they published is of another form with as many parameters: the normalisation stands before each convolution, and no
stage after the first pooling halves the picture. Here it is as the papers say.
"""

from torch import nn

from fedhpc.models.layers import GlobalAverage, Image
from fedhpc.models.resnet18 import INPUTS, OUTPUTS, stages

_GROUPS = 2


def cifar100_resnet18(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of any size; returns logits, [batch, classes]."""
    _, _, channels = (*shape, 1)[:3]
    layers: list[nn.Module] = [
        Image(),
        nn.Conv2d(channels, INPUTS, 7, stride=2, padding=3, bias=False),
        _normalization(INPUTS),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    return nn.Sequential(*layers, *stages(_normalization), GlobalAverage(), nn.Linear(OUTPUTS, classes))


def _normalization(channels: int) -> nn.Module:
    return nn.GroupNorm(_GROUPS, channels)
