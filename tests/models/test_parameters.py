"""Parameters are counted as torch counts them, without torch."""

import subprocess
import sys

import pytest

from fedhpc.models.architectures import build_model
from fedhpc.models.parameters import parameters_of
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
    StackOverflowLSTM,
)

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
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_as_torch_counts_them(settings: Model, shapes: list[tuple[int, ...]]) -> None:
    for shape in shapes:
        for classes in (2, 62):
            expected = sum(parameter.numel() for parameter in build_model(settings, shape, classes).parameters())
            assert parameters_of(settings, shape, classes) == expected


def test_torch_is_not_there() -> None:
    code = (
        "import sys; import fedhpc.models.parameters, fedhpc.experiment; assert not {'torch', 'h5py'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
