"""Parameters are counted as torch counts them, without torch."""

import subprocess
import sys

import pytest

from fedhpc.models.architectures import build_model
from fedhpc.models.parameters import parameters_of
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
    ResNet34,
    Sent140LSTM,
    ShakespeareLSTM,
    ShuffleNet,
    StackOverflowLSTM,
    Transformer,
    UNet3D,
)

WORDS = ("<padding>", "good", "bad", "<unknown>")
IMAGES = [(28, 28), (17, 23, 3), (32, 32, 3)]


@pytest.mark.parametrize(
    ("settings", "shapes"),
    [
        (Logistic(name="logistic"), [(60,), *IMAGES]),
        (MLP(name="mlp", hidden=[5]), [(60,), *IMAGES]),
        (MLP(name="mlp", hidden=[7, 3, 9]), [(60,), *IMAGES]),
        (EMNISTCNN(name="emnist_cnn"), IMAGES),
        (MNISTCNN(name="mnist_cnn"), IMAGES),
        (FedCoreCNN(name="fedcore_cnn"), IMAGES),
        (CIFAR100ResNet18(name="cifar100_resnet18"), IMAGES),
        (CIFAR10ResNet18(name="cifar10_resnet18"), IMAGES),
        (ShakespeareLSTM(name="shakespeare_lstm"), [(80,)]),
        (StackOverflowLSTM(name="stackoverflow_lstm"), [(20,)]),
        (Transformer(name="transformer", layers=3, width=12, heads=2), [(20,)]),
        (Sent140LSTM(name="sent140_lstm"), [(25,)]),
        (CelebACNN(name="celeba_cnn"), IMAGES),
        (CIFAR10CNN(name="cifar10_cnn"), IMAGES),
        (ResNet34(name="resnet34"), IMAGES[:2]),
        (ShuffleNet(name="shufflenet"), IMAGES[:2]),
        (EfficientNet(name="efficientnet_b0"), IMAGES[:2]),
        (UNet3D(name="unet3d"), [(4, 8, 4), (4, 8, 4, 3)]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_as_torch_counts_them(settings: Model, shapes: list[tuple[int, ...]]) -> None:
    for shape in shapes:
        for classes in (2, 62):
            module = build_model(settings, shape, classes, WORDS)
            expected = sum(parameter.numel() for parameter in module.parameters())
            assert parameters_of(settings, shape, classes, len(WORDS)) == expected


def test_torch_is_not_there() -> None:
    code = (
        "import sys; import fedhpc.models.parameters, fedhpc.experiment; assert not {'torch', 'h5py'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
