"""The models an experiment can name."""

from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings


class Logistic(Settings):
    """Multinomial logistic regression on the flattened features."""

    name: Literal["logistic"]


class MLP(Settings):
    """Fully connected layers with ReLU between them, on the flattened features."""

    name: Literal["mlp"]
    hidden: list[Annotated[int, Field(ge=1, le=65_536)]] = Field([64], min_length=1)


class EMNISTCNN(Settings):
    """Two convolutions, pooling and two fully connected layers, with dropout (Reddi et al. 2021; Hard et al.)."""

    name: Literal["emnist_cnn"]


class MNISTCNN(Settings):
    """Two convolutions, each with pooling, and two fully connected layers (FedCompass)."""

    name: Literal["mnist_cnn"]


class CIFAR100ResNet18(Settings):
    """ResNet-18 with group normalisation (Reddi et al. 2021; Hard et al.)."""

    name: Literal["cifar100_resnet18"]


class CIFAR10ResNet18(Settings):
    """ResNet-18 with batch normalisation (FedCompass)."""

    name: Literal["cifar10_resnet18"]


class FedCoreCNN(Settings):
    """Two padded convolutions, each with pooling, and two fully connected layers (McMahan et al. 2017; FedCore)."""

    name: Literal["fedcore_cnn"]


class ShakespeareLSTM(Settings):
    """An LSTM of two layers that scores the next character of a text (Caldas et al. 2018; FedCore)."""

    name: Literal["shakespeare_lstm"]


class StackOverflowLSTM(Settings):
    """An LSTM that scores each next token of a sentence (Reddi et al. 2021; Hard et al.)."""

    name: Literal["stackoverflow_lstm"]


Model = Annotated[
    Logistic
    | MLP
    | EMNISTCNN
    | MNISTCNN
    | FedCoreCNN
    | CIFAR100ResNet18
    | CIFAR10ResNet18
    | ShakespeareLSTM
    | StackOverflowLSTM,
    Field(discriminator="name"),
]


def keeps_running_statistics(model: Model) -> bool:
    """Whether the model normalises by means and variances that it gathers while it trains."""
    return isinstance(model, CIFAR10ResNet18)
