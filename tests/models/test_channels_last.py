import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedhpc.models.architectures import build_model
from fedhpc.models.channels_last import channels_last
from fedhpc.models.dropout import KeyedDropout, give_noise, noise_bytes
from fedhpc.models.layers import GlobalAverage, Image, Residual
from fedhpc.models.settings import (
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CelebACNN,
    CIFAR10ResNet18,
    CIFAR100ResNet18,
    FedCoreCNN,
    ShuffleNet,
    UNet3D,
)

MODELS = [
    (MLP(name="mlp", hidden=[7, 4]), (6,)),
    (EMNISTCNN(name="emnist_cnn"), (8, 9)),
    (EMNISTCNN(name="emnist_cnn"), (9, 8, 2)),
    (MNISTCNN(name="mnist_cnn"), (16, 18, 3)),
    (CIFAR100ResNet18(name="cifar100_resnet18"), (12, 10, 3)),
    (CIFAR10ResNet18(name="cifar10_resnet18"), (12, 10, 3)),
    (FedCoreCNN(name="fedcore_cnn"), (9, 10, 2)),
    (CelebACNN(name="celeba_cnn"), (9, 10, 2)),
    (ShuffleNet(name="shufflenet"), (33, 34, 2)),
    (UNet3D(name="unet3d"), (4, 8, 4)),
]


def passed(module, x, labels, noise):
    """Scores and gradients of a copy of ``x``."""
    give_noise(module, noise)
    scores = module(x).flatten(0, -2)
    labels = labels.flatten()
    return scores, torch.autograd.grad(cross_entropy(scores, labels), list(module.parameters()))


@pytest.mark.parametrize(("settings", "shape"), MODELS)
def test_the_same_function_from_the_same_parameters(settings, shape):
    torch.manual_seed(0)
    module = build_model(settings, shape, 5).double()
    rewritten = channels_last(module)
    x = torch.randn(4, *shape, dtype=torch.float64)
    labels = torch.randint(5, (4, *shape) if isinstance(settings, UNet3D) else (4,))
    noise = torch.randint(256, (4, noise_bytes(module, shape)), dtype=torch.uint8)
    assert noise_bytes(rewritten, shape) == noise.shape[1]
    kept = x.clone()
    scores, gradients = passed(module, x, labels, noise)
    ours, our_gradients = passed(rewritten, x, labels, noise)
    torch.testing.assert_close(ours, scores)
    assert torch.equal(x, kept)
    flattened = next((layer.weight for layer in module if isinstance(layer, nn.Linear)), None)
    averaged = isinstance(settings, CIFAR100ResNet18 | CIFAR10ResNet18 | ShuffleNet)
    for parameter, gradient, our_gradient in zip(module.parameters(), gradients, our_gradients, strict=True):
        if parameter is flattened and len(shape) > 1 and not averaged:
            channels = [layer.out_channels for layer in module if isinstance(layer, nn.Conv2d)][-1]
            # Its columns are in the order (height, width, channels).
            our_gradient = our_gradient.view(len(gradient), -1, channels).transpose(1, 2).flatten(1)
        torch.testing.assert_close(our_gradient, gradient)


def test_the_given_module_stays_as_it_is():
    module = build_model(EMNISTCNN(name="emnist_cnn"), (8, 9), 5)
    before, weights = str(module), [parameter.clone() for parameter in module.parameters()]
    channels_last(module)
    assert str(module) == before
    assert all(torch.equal(*pair) for pair in zip(module.parameters(), weights, strict=True))
    assert all(parameter.is_contiguous() for parameter in module.parameters())


def test_kernels_and_activations_lie_with_the_channels_last():
    module = build_model(EMNISTCNN(name="emnist_cnn"), (8, 9, 2), 5)
    rewritten = channels_last(module)
    activations = []
    for layer in rewritten:
        if isinstance(layer, nn.Conv2d):
            height, width = layer.kernel_size
            channels = layer.in_channels
            assert layer.weight.stride() == (height * width * channels, 1, width * channels, channels)
        layer.register_forward_hook(lambda layer, inputs, output: activations.append(output))
    give_noise(rewritten, torch.zeros(3, noise_bytes(module, (8, 9, 2)), dtype=torch.uint8))
    rewritten(torch.randn(3, 8, 9, 2))
    pictures = [output for output in activations if output.ndim == 4]
    assert len(pictures) == 7
    assert all(output.is_contiguous(memory_format=torch.channels_last) for output in pictures)


def test_relu_spares_what_is_needed_elsewhere():
    # Of a block that begins with ReLU the shortcut needs the input as it was; of a model, the caller.
    block = Residual(nn.Sequential(nn.ReLU(), nn.Conv2d(1, 1, 1)), nn.Sequential())
    module = nn.Sequential(nn.ReLU(), Image(), block, nn.Tanh(), nn.ReLU(), GlobalAverage())
    x = torch.randn(2, 3, 3)
    kept = x.clone()
    torch.testing.assert_close(channels_last(module)(x), module(x))
    assert torch.equal(x, kept)
    inner = nn.Sequential(Image(), block)
    torch.testing.assert_close(channels_last(inner)(x), inner(x))
    channels_last(module)(x).sum().backward()


def test_only_pictures_of_a_convolution_are_flattened_in_another_order():
    averaged = nn.Sequential(Image(), nn.Conv2d(1, 4, 2), GlobalAverage(), nn.Flatten(), nn.Linear(4, 3))
    raw = nn.Sequential(Image(), nn.Flatten(), nn.Linear(9, 3))
    late = nn.Sequential(Image(), nn.Conv2d(1, 2, 2), KeyedDropout(0), nn.Flatten(), nn.ReLU(), nn.Linear(8, 3))
    x = torch.randn(2, 3, 3)
    for module in (averaged, raw, late):
        module.eval()
        torch.testing.assert_close(channels_last(module)(x), module(x))
