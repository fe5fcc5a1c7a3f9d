import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedhpc.models.architectures import build_model
from fedhpc.models.dropout import KeyedDropout, give_noise, noise_bytes
from fedhpc.models.layers import LSTM, Codes, Image
from fedhpc.models.settings import (
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CelebACNN,
    CIFAR100ResNet18,
    FedCoreCNN,
    Logistic,
    StackOverflowLSTM,
)
from fedhpc.models.stacked import StackedModel

CLIENTS, BATCH = 3, 4

# Model, shape of an example, classes.
MODELS = [
    (Logistic(name="logistic"), (3, 2), 5),
    (MLP(name="mlp", hidden=[7, 4]), (6,), 5),
    (EMNISTCNN(name="emnist_cnn"), (8, 9), 5),
    (EMNISTCNN(name="emnist_cnn"), (9, 8, 2), 5),
    (MNISTCNN(name="mnist_cnn"), (16, 18), 5),
    (FedCoreCNN(name="fedcore_cnn"), (9, 10, 2), 5),
    (CIFAR100ResNet18(name="cifar100_resnet18"), (12, 10, 3), 5),
    (CelebACNN(name="celeba_cnn"), (9, 10, 3), 5),
    (StackOverflowLSTM(name="stackoverflow_lstm"), (6,), 11),
]
CONVOLUTIONS = ["grouped", "patches"]


def drawn(module, shape, classes, seed=0):
    """Weights, features, labels and noise of a stack of clients."""
    draw = torch.Generator().manual_seed(seed)
    first = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    weights = first * (1 + 0.3 * torch.randn(CLIENTS, len(first), generator=draw))
    if isinstance(module[0], Codes | nn.Embedding):
        features = torch.randint(classes, (CLIENTS, BATCH, *shape), generator=draw)
        labels = torch.randint(classes, (CLIENTS, BATCH, *shape), generator=draw)
    else:
        features = torch.randn(CLIENTS, BATCH, *shape, generator=draw)
        labels = torch.randint(classes, (CLIENTS, BATCH), generator=draw)
    total = noise_bytes(module, shape)
    return weights, features, labels, torch.randint(256, (CLIENTS, BATCH, total), dtype=torch.uint8, generator=draw)


def alone(module, weights, features, labels, noise):
    """One client's logits and gradient by the reference module."""
    position = 0
    for parameter in module.parameters():
        parameter.data = weights[position : position + parameter.numel()].view_as(parameter)
        position += parameter.numel()
    give_noise(module, noise)
    logits = module(features)
    loss = cross_entropy(logits.flatten(0, -2), labels.flatten())
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    return logits.detach(), torch.cat([gradient.flatten() for gradient in gradients])


def stacked(model, weights, features, labels, noise):
    """All clients' logits and gradients."""
    weights = weights.clone().requires_grad_()
    logits = model.forward(weights, features, noise)
    loss = sum(cross_entropy(logits[c].flatten(0, -2), labels[c].flatten()) for c in range(len(weights)))
    return logits.detach(), torch.autograd.grad(loss, weights)[0]


def away(ours, theirs):
    """The distance relative to the length."""
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
@pytest.mark.parametrize(("settings", "shape", "classes"), MODELS)
def test_each_clients_logits_and_gradient_are_those_of_its_model_alone(settings, shape, classes, convolution):
    torch.manual_seed(1)
    module = build_model(settings, shape, classes)
    weights, features, labels, noise = drawn(module, shape, classes)
    logits, gradients = stacked(StackedModel(module, shape, convolution), weights, features, labels, noise)
    for client in range(CLIENTS):
        theirs = alone(module, weights[client], features[client], labels[client], noise[client])
        assert away(logits[client], theirs[0]) < 1e-5
        assert away(gradients[client], theirs[1]) < 1e-5


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_every_parameters_gradient_holds_in_double_precision(convolution):
    module = build_model(CIFAR100ResNet18(name="cifar100_resnet18"), (10, 12, 3), 5).double()
    weights, features, labels, noise = drawn(module, (10, 12, 3), 5)
    features = features.double()
    _, gradients = stacked(StackedModel(module, (10, 12, 3), convolution), weights, features, labels, noise)
    _, theirs = alone(module, weights[1], features[1], labels[1], noise[1])
    position = 0
    for parameter in module.parameters():
        piece = slice(position, position + parameter.numel())
        assert away(gradients[1, piece], theirs[piece]) < 1e-9
        position += parameter.numel()


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
@pytest.mark.parametrize(("settings", "shape", "classes"), MODELS)
def test_a_clients_numbers_do_not_depend_on_its_neighbours(settings, shape, classes, convolution):
    module = build_model(settings, shape, classes)
    model = StackedModel(module, shape, convolution)
    first, second = drawn(module, shape, classes), drawn(module, shape, classes, seed=1)
    for one, other in zip(first, second, strict=True):
        other[1] = one[1]
    for ours, theirs in zip(stacked(model, *first), stacked(model, *second), strict=True):
        assert torch.equal(ours[1], theirs[1])
        assert not torch.equal(ours[0], theirs[0])


def test_parameters_are_views_of_the_rows_in_the_modules_order():
    module = build_model(EMNISTCNN(name="emnist_cnn"), (28, 28), 62)
    padded = torch.zeros(2, 1_206_592)
    padded[1, 320 + 1] = 7.0  # after 32 kernels of 3 by 3 and 32 biases: the second convolution's kernels
    views = StackedModel(module, (28, 28)).views(padded[:, :1_206_590])
    assert [view.shape[1:] for view in views] == [parameter.shape for parameter in module.parameters()]
    assert views[2][1, 0, 0, 0, 1] == 7.0
    views[0][1, 0, 0, 0, 0] = 5.0
    assert padded[1, 0] == 5.0


def test_gradients_of_the_views_are_those_of_the_flat_weights():
    module = build_model(MNISTCNN(name="mnist_cnn"), (16, 16), 5)
    model = StackedModel(module, (16, 16))
    weights, features, labels, noise = drawn(module, (16, 16), 5)
    views = [view.detach().requires_grad_() for view in model.views(weights)]
    loss = cross_entropy(model.forward_views(views, features, None).flatten(0, 1), labels.flatten()) * CLIENTS
    ours = torch.cat([gradient.flatten(1) for gradient in torch.autograd.grad(loss, views)], 1)
    torch.testing.assert_close(ours, stacked(model, weights, features, labels, noise)[1])


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_without_noise_nothing_is_dropped(convolution):
    module = build_model(EMNISTCNN(name="emnist_cnn"), (8, 8), 5)
    weights, features, _, _ = drawn(module, (8, 8), 5)
    ours = StackedModel(module, (8, 8), convolution).forward(weights, features, None)[2]
    nn.utils.vector_to_parameters(weights[2], module.parameters())
    torch.testing.assert_close(ours, module.eval()(features[2]))


def test_a_sentence_of_one_token_has_no_step_before_it():
    module = nn.Sequential(nn.Embedding(7, 2), LSTM(2, 3), nn.Linear(3, 7))
    weights, features, labels, noise = drawn(module, (1,), 7)
    _, gradients = stacked(StackedModel(module, (1,)), weights, features, labels, noise)
    _, theirs = alone(module, weights[0], features[0], labels[0], noise[0])
    torch.testing.assert_close(gradients[0], theirs)


@pytest.mark.parametrize("layer", [nn.Tanh(), nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, dilation=2)])
def test_a_layer_that_cannot_be_stacked_is_refused_by_its_name(layer):
    with pytest.raises(TypeError, match=type(layer).__name__):
        StackedModel(nn.Sequential(Image(), layer), (9, 9, 4))


def test_dropout_between_vectors_and_between_pictures_takes_its_own_bytes():
    module = nn.Sequential(Image(), KeyedDropout(0.5), nn.Flatten(), KeyedDropout(0.5))
    noise = torch.tensor([[[255, 0, 255, 255, 255, 0]], [[255, 255, 255, 0, 255, 255]]], dtype=torch.uint8)
    given = torch.ones(2, 1, 1, 3)
    for convolution in CONVOLUTIONS:
        model = StackedModel(nn.Sequential(module, nn.Linear(3, 3)), (1, 3), convolution)
        weights = torch.cat([torch.eye(3).flatten(), torch.zeros(3)]).expand(2, -1)
        assert model.forward(weights, given, noise).tolist() == [[[4.0, 0.0, 0.0]], [[0.0, 4.0, 4.0]]]
