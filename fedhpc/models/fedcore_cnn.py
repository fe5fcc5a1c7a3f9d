"""FedCore's network for MNIST: the one of McMahan et al. 2017 (section 3), 1,663,370 parameters on 28 by 28 pixels."""

from torch import nn

from fedhpc.models.layers import Image


def fedcore_cnn(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of at least 4 by 4; returns logits, [batch, classes]."""
    height, width, channels = (*shape, 1)[:3]
    return nn.Sequential(
        Image(),
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )
