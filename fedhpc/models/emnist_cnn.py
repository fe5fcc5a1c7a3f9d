"""The EMNIST network of Reddi et al. 2021 (Adaptive Federated Optimization, table 8), which Hard et al. train."""

from torch import nn

from fedhpc.models.dropout import KeyedDropout
from fedhpc.models.layers import Image


def emnist_cnn(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of at least 6 by 6; returns logits, [batch, classes]."""
    height, width, channels = (*shape, 1)[:3]
    return nn.Sequential(
        Image(),
        nn.Conv2d(channels, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        KeyedDropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128),
        nn.ReLU(),
        KeyedDropout(0.5),
        nn.Linear(128, classes),
    )
