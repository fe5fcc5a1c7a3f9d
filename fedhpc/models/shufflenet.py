"""ShuffleNet V2 (Ma et al. 2018, table 5) of half width, with batch normalisation.

RELAY trains a ShuffleNet of 1.4 million parameters on OpenImage (table 1); this one has 1,366,792 with 1,000 classes.
"""

import torch
from torch import nn

from fedhpc.models.batch_norm import BatchNorm2d
from fedhpc.models.layers import GlobalAverage, Image
from fedhpc.models.tables import SHUFFLENET_FIRST as FIRST
from fedhpc.models.tables import SHUFFLENET_LAST as LAST
from fedhpc.models.tables import SHUFFLENET_STAGES as STAGES


class ShuffleUnit(nn.Module):
    """One half of the channels passes through ``body``; with stride 2 both do, the other one through ``side``. Then the
    halves' channels take turns (Ma et al. 2018, figure 3 c and d).

    Takes float32 [batch, channels, height, width].
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.halves_input = stride == 1
        self.side = nn.Sequential()
        if not self.halves_input:
            self.side.extend([*_depthwise(inputs, stride), *_pointwise(inputs, half)])
        entering = half if self.halves_input else inputs
        self.body = nn.Sequential(*_pointwise(entering, half), *_depthwise(half, stride), *_pointwise(half, half))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side, body = x.chunk(2, 1) if self.halves_input else (x, x)
        # Turn by turn: channel 0 of one half, channel 0 of the other, channel 1 of one half.
        return torch.stack([self.side(side), self.body(body)], 2).flatten(1, 2)


def shufflenet(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of any size; returns logits, [batch, classes]."""
    _, _, channels = (*shape, 1)[:3]
    layers: list[nn.Module] = [
        Image(),
        nn.Conv2d(channels, FIRST, 3, stride=2, padding=1, bias=False),
        BatchNorm2d(FIRST),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    width = FIRST
    for outputs, units in STAGES:
        layers.append(ShuffleUnit(width, outputs, 2))
        layers += [ShuffleUnit(outputs, outputs, 1) for _ in range(units - 1)]
        width = outputs
    return nn.Sequential(*layers, *_pointwise(width, LAST), GlobalAverage(), nn.Linear(LAST, classes))


def _pointwise(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 1, bias=False), BatchNorm2d(outputs), nn.ReLU()]


def _depthwise(channels: int, stride: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False)
    return [convolution, BatchNorm2d(channels)]
