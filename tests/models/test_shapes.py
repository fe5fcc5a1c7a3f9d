import pytest
import torch

from fedhpc.models.architectures import build_model
from fedhpc.models.settings import (
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CIFAR10ResNet18,
    CIFAR100ResNet18,
    FedCoreCNN,
    ShakespeareLSTM,
    StackOverflowLSTM,
)
from fedhpc.models.shapes import shape_mistakes

EMNIST, MNIST = EMNISTCNN(name="emnist_cnn"), MNISTCNN(name="mnist_cnn")
FEDCORE, CIFAR10 = FedCoreCNN(name="fedcore_cnn"), CIFAR10ResNet18(name="cifar10_resnet18")
RESNET, LSTM = CIFAR100ResNet18(name="cifar100_resnet18"), StackOverflowLSTM(name="stackoverflow_lstm")


@pytest.mark.parametrize(("settings", "side"), [(EMNIST, 6), (MNIST, 16), (FEDCORE, 4), (RESNET, 1), (CIFAR10, 9)])
def test_the_smallest_image_that_passes_is_the_smallest_that_computes(settings, side):
    for shape in ((side, side), (side, side, 3)):
        assert shape_mistakes(settings, shape) == []
        assert build_model(settings, shape, 4).eval()(torch.zeros(2, *shape)).shape == (2, 4)
    for shape in ((side - 1, side), (side, side - 1, 3)):
        (told,) = shape_mistakes(settings, shape)
        assert told.startswith(f"task.model.name: {settings.name} takes images of at least {side} by {side} pixels")
        assert str(list(shape)) in told


@pytest.mark.parametrize("shape", [(784,), (), (2, 28, 28, 1)])
def test_what_is_no_image_is_refused_with_its_shape(shape):
    (told,) = shape_mistakes(EMNIST, shape)
    assert "[height, width]" in told
    assert str(list(shape)) in told


def test_a_model_of_sentences_is_refused_for_classification():
    for shape in ((20,), (28, 28)):
        (told,) = shape_mistakes(LSTM, shape)
        assert "next token of a sentence" in told


def test_a_model_of_characters_takes_texts():
    model = ShakespeareLSTM(name="shakespeare_lstm")
    assert shape_mistakes(model, (80,)) == []
    (told,) = shape_mistakes(model, (28, 28))
    assert told.startswith("task.model.name: shakespeare_lstm takes texts, [characters]; the data's examples have")


def test_the_flattening_models_take_any_shape():
    for shape in ((), (3,), (2, 3, 4, 5)):
        assert shape_mistakes(MLP(name="mlp"), shape) == []
