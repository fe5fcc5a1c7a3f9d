"""EfficientNet-B0 (Tan and Le 2019, table 1), which FLamby and FedCompass train on Fed-ISIC2019.

Layer by layer the form of lukemelas/EfficientNet-PyTorch, which FLamby takes, so that its published weights fit:
TensorFlow's paddings, here by the data's own size; batch normalisation with an epsilon of 0.001, whose running
statistics take a hundredth of each batch's; 5,288,548 parameters with 1,000 classes. Dropout of 0.2 is 51/256 here, and
what a block adds is dropped with a probability that rises from block to block, to the nearest 1/256.
"""

from pathlib import Path

import torch
from torch import nn

from fedhpc.models.batch_norm import BatchNorm2d
from fedhpc.models.dropout import KeyedDropout
from fedhpc.models.layers import GlobalAverage, Image, Residual
from fedhpc.models.pretrained import load_pretrained
from fedhpc.models.tables import EFFICIENTNET_FIRST as FIRST
from fedhpc.models.tables import EFFICIENTNET_LAST as LAST
from fedhpc.models.tables import EFFICIENTNET_STAGES as STAGES

_DROPOUT = 51 / 256
_DROPPED_BLOCKS = 0.2
"""With which a block behind the last would be dropped; block n of 16, counted from 0, with n/16 of it."""


class Squeeze(nn.Module):
    """Each channel times a share of 0 to 1 that the means of all of them tell (Hu et al. 2018).

    Takes and returns float32 [batch, channels, height, width]; ``squeezed`` channels lie between.
    """

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.shares = nn.Sequential(
            nn.Conv2d(channels, squeezed, 1), nn.SiLU(), nn.Conv2d(squeezed, channels, 1), nn.Sigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = self.shares(x.mean((2, 3), keepdim=True)) * x
        return scaled


class DroppedBlock(nn.Module):
    """In training, an example's values are all zero with probability ``p``, a multiple of 1/256, or else divided by
    1 - p (stochastic depth: Huang et al. 2016). One byte an example decides.

    Takes and returns float32 [batch, channels, height, width].
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.kept = KeyedDropout(p)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: torch.Tensor = self.kept(x.new_ones(len(x), 1))
        return x * kept[:, :, None, None]


def efficientnet_b0(shape: tuple[int, ...], classes: int, weights: Path | None) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of any size; returns logits, [batch, classes]. ``weights``: a file of
    published ones. Raises ExperimentError where they do not fit."""
    height, width, channels = (*shape, 1)[:3]
    sides = (height, width)
    layers: list[nn.Module] = [Image(), *_convolution(channels, FIRST, 3, 2, sides), nn.SiLU()]
    sides, inputs, number = _halved(sides, 2), FIRST, 0
    names = ["_conv_stem", "_bn0"]
    total = sum(blocks for blocks, *_ in STAGES)
    for blocks, kernel, first_stride, expansion, outputs in STAGES:
        for block in range(blocks):
            stride = 1 if block else first_stride
            body = _block(inputs, outputs, kernel, stride, expansion, sides)
            own = ["_expand_conv", "_bn0"] if expansion > 1 else []
            own += ["_depthwise_conv", "_bn1", "_se_reduce", "_se_expand", "_project_conv", "_bn2"]
            names += [f"_blocks.{number}.{name}" for name in own]
            if stride == 1 and inputs == outputs:
                dropped = DroppedBlock(round(256 * _DROPPED_BLOCKS * number / total) / 256)
                layers.append(Residual(nn.Sequential(*body, dropped), nn.Sequential()))
            else:
                layers += body
            sides, inputs, number = _halved(sides, stride), outputs, number + 1
    layers += [*_convolution(inputs, LAST, 1, 1, sides), nn.SiLU(), GlobalAverage(), KeyedDropout(_DROPOUT)]
    module = nn.Sequential(*layers, nn.Linear(LAST, classes))
    if weights is not None:
        load_pretrained(module, [*names, "_conv_head", "_bn1", "_fc"], weights)
    return module


def _block(
    inputs: int, outputs: int, kernel: int, stride: int, expansion: int, sides: tuple[int, int]
) -> list[nn.Module]:
    wide = expansion * inputs
    layers: list[nn.Module] = []
    if expansion > 1:
        layers += [*_convolution(inputs, wide, 1, 1, sides), nn.SiLU()]
    layers += [*_convolution(wide, wide, kernel, stride, sides, groups=wide), nn.SiLU()]
    return [*layers, Squeeze(wide, inputs // 4), *_convolution(wide, outputs, 1, 1, sides)]


def _convolution(
    inputs: int, outputs: int, kernel: int, stride: int, sides: tuple[int, int], groups: int = 1
) -> list[nn.Module]:
    """Padded as TensorFlow does: as much as makes side / stride of a side, rounded up, the odd pixel at its end."""
    down, across = (max(0, (-(-side // stride) - 1) * stride + kernel - side) for side in sides)
    layers: list[nn.Module] = []
    if down or across:
        layers.append(nn.ZeroPad2d((across // 2, across - across // 2, down // 2, down - down // 2)))
    layers.append(nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False))
    return [*layers, BatchNorm2d(outputs, eps=1e-3, momentum=0.01)]


def _halved(sides: tuple[int, int], stride: int) -> tuple[int, int]:
    return -(-sides[0] // stride), -(-sides[1] // stride)
