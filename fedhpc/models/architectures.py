"""The models as torch modules, by name."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from fedhpc.models.cifar10_resnet18 import cifar10_resnet18
from fedhpc.models.cifar100_resnet18 import cifar100_resnet18
from fedhpc.models.efficientnet import efficientnet_b0
from fedhpc.models.emnist_cnn import emnist_cnn
from fedhpc.models.fedcore_cnn import fedcore_cnn
from fedhpc.models.mnist_cnn import mnist_cnn
from fedhpc.models.own import build_own
from fedhpc.models.resnet34 import resnet34
from fedhpc.models.sent140_lstm import sent140_lstm
from fedhpc.models.settings import (
    CIFAR10CNN,
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CelebACNN,
    CIFAR10ResNet18,
    CIFAR100ResNet18,
    EfficientNet,
    FedCoreCNN,
    Logistic,
    Model,
    OwnModule,
    ResNet34,
    Sent140LSTM,
    ShakespeareLSTM,
    ShuffleNet,
    StackOverflowLSTM,
    Transformer,
    UNet3D,
)
from fedhpc.models.shakespeare_lstm import shakespeare_lstm
from fedhpc.models.shufflenet import shufflenet
from fedhpc.models.simple_convnet import simple_convnet
from fedhpc.models.stackoverflow_lstm import stackoverflow_lstm
from fedhpc.models.transformer import transformer
from fedhpc.models.unet3d import unet3d


def build_model(settings: Model, shape: tuple[int, ...], classes: int, words: Sequence[str] = ()) -> nn.Module:
    """The named model, with torch's default initial weights (drawn from torch's global generator) or its file's.

    Takes float32 [batch, *shape], of texts the codes of ``words``, and returns logits, float32 [batch, classes]; a
    model that scores each next token or each voxel returns [batch, *places, classes]. ``shape`` is one that
    ``shape_mistakes`` has nothing against. Raises ExperimentError where a file of weights, or a module of one's own,
    does not fit; their paths are as they were found.
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
        case CelebACNN() | CIFAR10CNN():
            return simple_convnet(shape, classes)
        case ResNet34():
            return resnet34(shape, classes)
        case ShuffleNet():
            return shufflenet(shape, classes)
        case EfficientNet():
            return efficientnet_b0(shape, classes, settings.weights)
        case UNet3D():
            return unet3d(shape, classes)
        case ShakespeareLSTM():
            return shakespeare_lstm(classes)
        case Sent140LSTM():
            return sent140_lstm(words, classes, settings.vectors)
        case StackOverflowLSTM():
            return stackoverflow_lstm(classes)
        case Transformer():
            return transformer(shape[0], classes, settings.layers, settings.width, settings.heads)
        case OwnModule():
            return build_own(settings, shape, classes)


def _dense(widths: list[int]) -> nn.Sequential:
    """Fully connected layers on the flattened features, with ReLU between them."""
    layers: list[nn.Module] = [nn.Flatten()]
    for width, next_width in pairwise(widths):
        layers += [nn.Linear(width, next_width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
