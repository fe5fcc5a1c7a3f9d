"""How many parameters a model has, without building it: what clients download and upload is known on a login node."""

import math
from itertools import pairwise

from fedhpc.models.settings import (
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CIFAR10ResNet18,
    CIFAR100ResNet18,
    FedCoreCNN,
    Logistic,
    Model,
    ShakespeareLSTM,
)


def parameters_of(settings: Model, shape: tuple[int, ...], classes: int) -> int:
    """The trained parameters of ``build_model(settings, shape, classes)``; what batch normalisation gathers is not
    among them."""
    match settings:
        case Logistic():
            return _dense(math.prod(shape), classes)
        case MLP():
            return _dense(math.prod(shape), *settings.hidden, classes)
        case ShakespeareLSTM():
            of_lstm = sum(4 * 256 * (inputs + 256 + 2) for inputs in (8, 256))
            return 8 * classes + of_lstm + _dense(256, classes)
        case EMNISTCNN() | MNISTCNN() | FedCoreCNN() | CIFAR10ResNet18() | CIFAR100ResNet18():
            return _of_images(settings, (*shape, 1)[:3], classes)
        case _:
            return 96 * classes + 4 * 670 * (96 + 670 + 1) + _dense(670, 96, classes)


def _of_images(settings: Model, shape: tuple[int, ...], classes: int) -> int:
    height, width, channels = shape
    match settings:
        case EMNISTCNN():
            left = ((height - 4) // 2) * ((width - 4) // 2)
            return _convolution(3, channels, 32) + _convolution(3, 32, 64) + _dense(64 * left, 128, classes)
        case MNISTCNN():
            left = math.prod(((side - 4) // 2 - 4) // 2 for side in (height, width))
            return _convolution(5, channels, 32) + _convolution(5, 32, 64) + _dense(64 * left, 512, classes)
        case FedCoreCNN():
            left = (height // 4) * (width // 4)
            return _convolution(5, channels, 32) + _convolution(5, 32, 64) + _dense(64 * left, 512, classes)
        case _:
            first = (3 if isinstance(settings, CIFAR10ResNet18) else 7) ** 2 * channels * 64 + 2 * 64
            return first + _stages() + _dense(512, classes)


def _dense(*widths: int) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))


def _convolution(side: int, inputs: int, outputs: int) -> int:
    return (side**2 * inputs + 1) * outputs


def _stages() -> int:
    """Of ResNet-18: two blocks a stage, two convolutions a block, without a bias but normalised (two parameters a
    channel); and where a stage widens, its shortcut."""
    count, before = 0, 64
    for width in (64, 128, 256, 512):
        count += 9 * before * width + 3 * 9 * width**2 + 4 * 2 * width
        if width != before:
            count += before * width + 2 * width
        before = width
    return count
