"""The models as torch modules, by name."""

import math
from itertools import pairwise

from torch import nn

from fedhpc.models.cifar10_resnet18 import cifar10_resnet18
from fedhpc.models.cifar100_resnet18 import cifar100_resnet18
from fedhpc.models.emnist_cnn import emnist_cnn
from fedhpc.models.fedcore_cnn import fedcore_cnn
from fedhpc.models.mnist_cnn import mnist_cnn
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
from fedhpc.models.shakespeare_lstm import shakespeare_lstm
from fedhpc.models.stackoverflow_lstm import stackoverflow_lstm


def build_model(settings: Model, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The named model, with torch's default initial weights (drawn from torch's global generator).

    Takes float32 [batch, *shape], returns logits, float32 [batch, classes]; ``stackoverflow_lstm`` takes int64
    [batch, time] and returns [batch, time, classes]. ``shape`` is one that ``shape_mistakes`` has nothing against.
    """
    match settings:
        case Logistic():
            return _dense([math.prod(shape), classes])
        case MLP():
            return _dense([math.prod(shape), *settings.hidden, classes])
        case EMNISTCNN():
            return emnist_cnn(shape, classes)
        case MNISTCNN():
            return mnist_cnn(shape, classes)
        case CIFAR100ResNet18():
            return cifar100_resnet18(shape, classes)
        case CIFAR10ResNet18():
            return cifar10_resnet18(shape, classes)
        case FedCoreCNN():
            return fedcore_cnn(shape, classes)
        case ShakespeareLSTM():
            return shakespeare_lstm(classes)
        case _:
            return stackoverflow_lstm(classes)


def _dense(widths: list[int]) -> nn.Sequential:
    """Fully connected layers on the flattened features, with ReLU between them."""
    layers: list[nn.Module] = [nn.Flatten()]
    for width, next_width in pairwise(widths):
        layers += [nn.Linear(width, next_width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
