"""FedBuff's network for CelebA and CIFAR-10 (Nguyen et al. 2022, appendix B.1): LEAF's four convolutions with pooling
(Caldas et al. 2018), with group normalisation (Wu and He 2018), a stride of 1, a padding of 2 and dropout.

As in the code that its authors published (FLSim's ``SimpleConvNet``), all four convolutions share one normalisation, of
one group a channel: 31,594 parameters for ten classes of 32 by 32 pixels in colour. The dropout of 0.1 is 26/256 here.
"""

from torch import nn

from fedhpc.models.dropout import KeyedDropout
from fedhpc.models.layers import Image
from fedhpc.models.tables import CONVNET_CHANNELS as CHANNELS

_DROPOUT = 26 / 256


def simple_convnet(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of any size; returns logits, [batch, classes]."""
    height, width, channels = (*shape, 1)[:3]
    normalization = nn.GroupNorm(CHANNELS, CHANNELS)
    layers: list[nn.Module] = [Image()]
    for inputs in (channels, CHANNELS, CHANNELS, CHANNELS):
        layers += [nn.Conv2d(inputs, CHANNELS, 3, padding=2), normalization, nn.ReLU(), nn.MaxPool2d(2)]
    left = CHANNELS * _after(height) * _after(width)
    return nn.Sequential(*layers, KeyedDropout(_DROPOUT), nn.Flatten(), nn.Linear(left, classes))


def _after(size: int) -> int:
    for _ in range(4):
        size = (size + 2) // 2
    return size
