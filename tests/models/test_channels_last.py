"""The channels-last rewriting computes the same function, and really keeps the channels last."""

import numpy as np
import pytest
import torch

from fedhpc.models.architectures import build_model
from fedhpc.models.channels_last import channels_last
from fedhpc.models.flat import bind, flatten, views
from fedhpc.models.settings import EMNISTCNN, MLP, MNISTCNN, CIFAR100ResNet18
from tests.clients.steps.reference import images, places

MODELS = [
    (EMNISTCNN(name="emnist_cnn"), (10, 8)),
    (MNISTCNN(name="mnist_cnn"), (17, 16, 3)),
    (CIFAR100ResNet18(name="cifar100_resnet18"), (9, 11, 3)),
    (MLP(name="mlp", hidden=[3]), (5,)),
]


@pytest.mark.parametrize(("model", "shape"), MODELS, ids=lambda value: getattr(value, "name", None))
def test_the_same_scores(model, shape):
    torch.manual_seed(0)
    plain = build_model(model, shape, 7).double().eval()
    rewritten = channels_last(plain)
    features = torch.randn(4, *shape, dtype=torch.float64)
    torch.testing.assert_close(rewritten(features), plain(features), rtol=1e-10, atol=1e-10)
    # The original stays as it was.
    assert not any(layer.inplace for layer in plain.modules() if isinstance(layer, torch.nn.ReLU))


@pytest.mark.parametrize(("model", "shape"), MODELS, ids=lambda value: getattr(value, "name", None))
def test_the_same_weights_in_another_order(model, shape):
    torch.manual_seed(0)
    plain = build_model(model, shape, 7)
    order = places(model, images(shape, [2], 7))
    assert sorted(order) == list(range(len(order)))
    assert np.array_equal(flatten(channels_last(plain)).numpy(), flatten(plain).numpy()[order])


def test_activations_lie_channels_last_from_the_first_convolution_on():
    # With one channel both orders of memory look alike, and torch may take the slower one.
    for model, shape in MODELS[:3]:
        rewritten = channels_last(build_model(model, shape, 7)).eval()
        seen: list[torch.Tensor] = []
        for layer in rewritten.modules():
            if isinstance(layer, torch.nn.Conv2d):
                layer.register_forward_hook(lambda layer, inputs, output, seen=seen: seen.append(output))
        rewritten(torch.randn(2, *shape))
        assert seen
        assert all(output.permute(0, 2, 3, 1).is_contiguous() for output in seen)


def test_a_bound_module_sees_the_vector_and_changes_it():
    module = channels_last(build_model(MODELS[0][0], (10, 8), 7))
    vector = flatten(module)
    bind(module, vector)
    for parameter, view in zip(module.parameters(), views(module, vector), strict=True):
        assert parameter.data_ptr() == view.data_ptr()
        assert parameter.stride() == view.stride()
    vector.zero_()
    assert all(not parameter.any() for parameter in module.parameters())
    with torch.no_grad():
        next(module.parameters()).fill_(2.0)
    assert vector[: 32 * 9].eq(2.0).all()
    assert not vector[32 * 9 :].any()
