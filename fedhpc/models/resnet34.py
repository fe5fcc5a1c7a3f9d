"""ResNet-34 (He et al. 2016, table 1) with batch normalisation, which RELAY trains on Google Speech, as 21.5 million
parameters (table 1). It has 21,797,672 with 1,000 classes, and with 35 words and one channel 21,296,355."""

from torch import nn

from fedhpc.models.batch_norm import BatchNorm2d
from fedhpc.models.layers import GlobalAverage, Image
from fedhpc.models.resnet18 import INPUTS, OUTPUTS, stages
from fedhpc.models.tables import RESNET34_BLOCKS


def resnet34(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of any size; returns logits, [batch, classes]."""
    _, _, channels = (*shape, 1)[:3]
    layers: list[nn.Module] = [
        Image(),
        nn.Conv2d(channels, INPUTS, 7, stride=2, padding=3, bias=False),
        BatchNorm2d(INPUTS),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    return nn.Sequential(*layers, *stages(BatchNorm2d, RESNET34_BLOCKS), GlobalAverage(), nn.Linear(OUTPUTS, classes))
