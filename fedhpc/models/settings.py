"""The models an experiment can name."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

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


class CelebACNN(Settings):
    """LEAF's network for CelebA, four convolutions, with group normalisation in place of batch normalisation
    (FedBuff, appendix B.1). Dropout is 26/256."""

    name: Literal["celeba_cnn"]


class CIFAR10CNN(Settings):
    """FedBuff's network for CIFAR-10, which is that for CelebA: four convolutions with group normalisation
    (appendix B.1). Dropout is 26/256."""

    name: Literal["cifar10_cnn"]


class Sent140LSTM(Settings):
    """An LSTM of two layers that tells a tweet's mood (Caldas et al. 2018; FedBuff, appendix B.1). Dropout is 26/256.
    ``vectors``: a file of GloVe vectors of 300 numbers, a word a line, with which known words begin; without it all
    begin at random. Either way they are trained."""

    name: Literal["sent140_lstm"]
    vectors: Path | None = None


class ResNet34(Settings):
    """ResNet-34 with batch normalisation (He et al. 2016; RELAY's 21.5 million parameters)."""

    name: Literal["resnet34"]


class ShuffleNet(Settings):
    """ShuffleNet V2 of half width, with batch normalisation (Ma et al. 2018; RELAY's 1.4 million parameters)."""

    name: Literal["shufflenet"]


class Transformer(Settings):
    """A small causal transformer that scores each next token: a stand-in for RELAY's ALBERT, and not that model. Each
    of its ``layers`` has so many ``heads``, which share the ``width``; nothing is dropped out."""

    name: Literal["transformer"]
    layers: int = Field(2, ge=1, le=48)
    width: int = Field(128, ge=2, le=8192)
    heads: int = Field(4, ge=1, le=128)

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads: {self.heads} do not share a width of {self.width}; give a divisor of it")
        return self


class UNet3D(Settings):
    """FLamby's 3-D U-Net for Fed-IXI, with batch normalisation, which scores each voxel (Cicek et al. 2016;
    FedCompass)."""

    name: Literal["unet3d"]


class EfficientNet(Settings):
    """EfficientNet-B0 with batch normalisation (Tan and Le 2019; FedCompass). Dropout is 51/256. ``weights``: a file of
    pretrained ones, as torch saves them and lukemelas/EfficientNet-PyTorch names them, whose last layer is left out
    where the classes are others; without it all begin at random."""

    name: Literal["efficientnet_b0"]
    weights: Path | None = None


class OwnModule(Settings):
    """A person's own: ``callable`` is ``module:function`` that takes the examples' shape, the number of classes and
    ``arguments`` by name, and returns a torch module that takes float32 [batch, *shape] and returns logits
    [batch, classes]. The module is looked for beside the experiment's file, then where Python looks; ``file`` is where
    it was found, which a results folder keeps. What the file holds is part of what a result depends on."""

    name: Literal["own"]
    callable: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    file: Path | None = None

    @field_validator("callable")
    @classmethod
    def _module_and_function(cls, named: str) -> str:
        module, _, function = named.partition(":")
        if not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(f"'{named}' is no module:function; for the function make of net.py, write net:make")
        return named

    @property
    def module(self) -> str:
        """The module's name, dots and all."""
        return self.callable.partition(":")[0]


Model = Annotated[
    Logistic
    | MLP
    | EMNISTCNN
    | MNISTCNN
    | FedCoreCNN
    | CIFAR100ResNet18
    | CIFAR10ResNet18
    | ShakespeareLSTM
    | StackOverflowLSTM
    | CelebACNN
    | CIFAR10CNN
    | Sent140LSTM
    | ResNet34
    | ShuffleNet
    | Transformer
    | UNet3D
    | EfficientNet
    | OwnModule,
    Field(discriminator="name"),
]


def keeps_running_statistics(model: Model) -> bool:
    """Whether the model normalises by means and variances that it gathers while it trains. Of one's own module that is
    known when it is built."""
    return isinstance(model, CIFAR10ResNet18 | ResNet34 | ShuffleNet | UNet3D | EfficientNet)
