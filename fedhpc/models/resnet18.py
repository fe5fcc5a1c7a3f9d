"""The four stages of ResNet-18 and ResNet-34 (He et al. 2016, table 1), with a normalisation of one's choice."""

from collections.abc import Callable

from torch import nn

from fedhpc.models.layers import Residual
from fedhpc.models.tables import RESNET18_BLOCKS, RESNET_WIDTHS

INPUTS, OUTPUTS = RESNET_WIDTHS[0], RESNET_WIDTHS[-1]
"""Channels before and after."""

Normalization = Callable[[int], nn.Module]
"""By the number of channels."""


def stages(normalization: Normalization, blocks: tuple[int, ...] = RESNET18_BLOCKS) -> list[nn.Module]:
    """So many blocks of two convolutions a stage; every stage but the first halves the picture."""
    layers: list[nn.Module] = []
    width = INPUTS
    for stage, next_width in enumerate(RESNET_WIDTHS):
        layers += [*_block(width, next_width, 1 if stage == 0 else 2, normalization)]
        for _ in range(blocks[stage] - 1):
            layers += [*_block(next_width, next_width, 1, normalization)]
        width = next_width
    return layers


def _block(inputs: int, outputs: int, stride: int, normalization: Normalization) -> list[nn.Module]:
    body = nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        normalization(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        normalization(outputs),
    )
    shortcut = nn.Sequential()
    if inputs != outputs:
        shortcut.append(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False))
        shortcut.append(normalization(outputs))
    return [Residual(body, shortcut), nn.ReLU()]
