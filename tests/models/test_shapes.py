import pytest
import torch

from fedhpc.models.architectures import build_model
from fedhpc.models.dropout import give_noise, noise_bytes
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
    ResNet34,
    Sent140LSTM,
    ShakespeareLSTM,
    ShuffleNet,
    StackOverflowLSTM,
    Transformer,
    UNet3D,
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


@pytest.mark.parametrize("settings", [LSTM, Transformer(name="transformer")])
def test_a_model_of_sentences_takes_sentences(settings):
    assert shape_mistakes(settings, (20,)) == []
    (told,) = shape_mistakes(settings, (28, 28))
    assert told.startswith(f"task.model.name: {settings.name} takes sentences, [tokens]; the data's examples have")


def test_a_model_of_words_takes_texts_whose_words_are_known():
    model = Sent140LSTM(name="sent140_lstm")
    assert shape_mistakes(model, (25,), words=4) == []
    (told,) = shape_mistakes(model, (25, 2), words=4)
    assert "takes texts, [words]" in told
    (told,) = shape_mistakes(model, (25,))
    assert "source leaf, dataset sent140" in told


@pytest.mark.parametrize("shape", [(4, 8, 12), (4, 8, 4, 2)])
def test_a_model_of_volumes_takes_those_that_can_be_halved_twice(shape):
    model = UNet3D(name="unet3d")
    assert shape_mistakes(model, shape) == []
    assert build_model(model, shape, 3).eval()(torch.zeros(2, *shape)).shape == (2, *shape[:3], 3)
    for wrong in ((4, 8), (4, 8, 10), (0, 8, 4), (4, 8, 4, 2, 2)):
        (told,) = shape_mistakes(model, wrong)
        assert "of sides that 4 divides" in told


@pytest.mark.parametrize(
    "settings",
    [
        CelebACNN(name="celeba_cnn"),
        CIFAR10CNN(name="cifar10_cnn"),
        ResNet34(name="resnet34"),
        ShuffleNet(name="shufflenet"),
        EfficientNet(name="efficientnet_b0"),
    ],
)
def test_one_example_of_the_smallest_image_can_train(settings):
    module = build_model(settings, (1, 1), 3).train()
    give_noise(module, torch.full((1, noise_bytes(module, (1, 1))), 255, dtype=torch.uint8))
    assert shape_mistakes(settings, (1, 1)) == []
    assert module(torch.ones(1, 1, 1)).isfinite().all()


def test_a_model_of_characters_takes_texts():
    model = ShakespeareLSTM(name="shakespeare_lstm")
    assert shape_mistakes(model, (80,)) == []
    (told,) = shape_mistakes(model, (28, 28))
    assert told.startswith("task.model.name: shakespeare_lstm takes texts, [characters]; the data's examples have")


def test_the_flattening_models_take_any_shape():
    for shape in ((), (3,), (2, 3, 4, 5)):
        assert shape_mistakes(MLP(name="mlp"), shape) == []
