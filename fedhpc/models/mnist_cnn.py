"""The MNIST network of FedCompass (Li et al. 2024, table 8)."""

from torch import nn

from fedhpc.models.layers import Image


def mnist_cnn(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of at least 16 by 16; returns logits, [batch, classes]."""
    height, width, channels = (*shape, 1)[:3]
    return nn.Sequential(
        Image(),
        nn.Conv2d(channels, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * _after(height) * _after(width), 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )


def _after(size: int) -> int:
    return ((size - 4) // 2 - 4) // 2
