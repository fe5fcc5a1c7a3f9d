import subprocess
import sys

import pytest
import torch
from torch.nn import functional

from fedhpc.models.architectures import build_model
from fedhpc.models.dense import DenseGradient
from fedhpc.models.dropout import give_noise, noise_bytes
from fedhpc.models.flat import flatten
from fedhpc.models.layers import Residual
from fedhpc.models.settings import (
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CIFAR10ResNet18,
    CIFAR100ResNet18,
    FedCoreCNN,
    Logistic,
    ShakespeareLSTM,
    StackOverflowLSTM,
)

LOGISTIC = Logistic(name="logistic")
CIFAR10, FEDCORE = CIFAR10ResNet18(name="cifar10_resnet18"), FedCoreCNN(name="fedcore_cnn")
SHAKESPEARE = ShakespeareLSTM(name="shakespeare_lstm")
# FedCompass, table 10.
BLOCKS = [73_984, 73_984, 230_144, 295_424, 919_040, 1_180_672, 3_673_088, 4_720_640]


@pytest.mark.parametrize(
    ("settings", "shape", "classes", "parameters"),
    [
        (LOGISTIC, (60,), 10, 60 * 10 + 10),
        (LOGISTIC, (28, 28), 10, 7850),  # the usual figure for MNIST
        (MLP(name="mlp"), (64,), 10, 64 * 64 + 64 + 64 * 10 + 10),
        (MLP(name="mlp", hidden=[5, 3]), (2, 2), 2, (4 * 5 + 5) + (5 * 3 + 3) + (3 * 2 + 2)),
        # The papers' own counts (FedCompass: the sum of its table 8).
        (EMNISTCNN(name="emnist_cnn"), (28, 28), 62, 1_206_590),
        (EMNISTCNN(name="emnist_cnn"), (28, 28, 1), 62, 1_206_590),
        (MNISTCNN(name="mnist_cnn"), (28, 28), 10, 832 + 51_264 + 524_800 + 5_130),
        (CIFAR10, (32, 32, 3), 10, 1_728 + 128 + sum(BLOCKS) + 5_130),
        (FEDCORE, (28, 28), 10, 1_663_370),
        (SHAKESPEARE, (80,), 90, 822_570),
        (CIFAR100ResNet18(name="cifar100_resnet18"), (32, 32, 3), 100, 11_227_812),
        (CIFAR100ResNet18(name="cifar100_resnet18"), (24, 24, 3), 100, 11_227_812),
    ],
)
def test_parameters_and_output_shape(settings, shape, classes, parameters):
    model = build_model(settings, shape, classes).eval()
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert model(torch.zeros(7, *shape)).shape == (7, classes)


def test_logistic_is_linear_in_the_flattened_features():
    model = build_model(LOGISTIC, (2, 2), 3)
    weight, bias = model.parameters()
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    torch.testing.assert_close(model(x)[0], weight @ torch.tensor([1.0, 2.0, 3.0, 4.0]) + bias)


def test_mlp_has_relu_between_its_layers_and_none_at_its_end():
    model = build_model(MLP(name="mlp", hidden=[1]), (1,), 1)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), (1.0, 0.0, -2.0, 0.5), strict=True):
            parameter.fill_(value)
    assert model(torch.tensor([[3.0], [-3.0]])).ravel().tolist() == [-5.5, 0.5]


def test_the_lstm_scores_each_next_token():
    model = build_model(StackOverflowLSTM(name="stackoverflow_lstm"), (20,), 10_004)
    assert sum(parameter.numel() for parameter in model.parameters()) == 4_050_748
    assert model(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 10_004)


def test_emnist_cnn_is_reddis_network_written_out():
    model = build_model(EMNISTCNN(name="emnist_cnn"), (8, 9), 4)
    images, noise = torch.randn(5, 8, 9), torch.randint(256, (5, noise_bytes(model, (8, 9))), dtype=torch.uint8)
    w1, b1, w2, b2, w3, b3, w4, b4 = model.parameters()
    x = functional.relu(functional.conv2d(images[:, None], w1, b1))
    x = functional.max_pool2d(functional.relu(functional.conv2d(x, w2, b2)), 2)  # 64 of 2 by 2
    kept = (noise[:, : 2 * 2 * 64].view(5, 2, 2, 64) >= 64).permute(0, 3, 1, 2)
    x = functional.relu((x * kept / 0.75).flatten(1) @ w3.t() + b3)
    x = (x * (noise[:, 2 * 2 * 64 :] >= 128) / 0.5) @ w4.t() + b4
    give_noise(model, noise)
    torch.testing.assert_close(model(images), x)


def test_mnist_cnn_is_fedcompass_table_8_written_out():
    model = build_model(MNISTCNN(name="mnist_cnn"), (28, 28), 10)
    images = torch.randn(2, 28, 28)
    w1, b1, w2, b2, w3, b3, w4, b4 = model.parameters()
    x = functional.max_pool2d(functional.relu(functional.conv2d(images[:, None], w1, b1)), 2)
    assert x.shape[1:] == (32, 12, 12)
    x = functional.max_pool2d(functional.relu(functional.conv2d(x, w2, b2)), 2)
    assert x.shape[1:] == (64, 4, 4)
    torch.testing.assert_close(model(images), functional.relu(x.flatten(1) @ w3.t() + b3) @ w4.t() + b4)


def test_fedcore_cnn_is_mcmahans_network_written_out():
    model = build_model(FEDCORE, (9, 10, 2), 4)
    images = torch.randn(3, 9, 10, 2)
    w1, b1, w2, b2, w3, b3, w4, b4 = model.parameters()
    x = functional.relu(functional.conv2d(images.permute(0, 3, 1, 2), w1, b1, padding="same"))
    assert x.shape[1:] == (32, 9, 10)
    x = functional.relu(functional.conv2d(functional.max_pool2d(x, 2), w2, b2, padding="same"))
    x = functional.max_pool2d(x, 2)
    assert x.shape[1:] == (64, 2, 2)
    torch.testing.assert_close(model(images), functional.relu(x.flatten(1) @ w3.t() + b3) @ w4.t() + b4)


def test_cifar10_resnet18_is_fedcompass_tables_10_and_11():
    model = build_model(CIFAR10, (32, 32, 3), 10)
    counts = [sum(parameter.numel() for parameter in layer.parameters()) for layer in model]
    assert [count for count in counts if count] == [1_728, 128, *BLOCKS, 5_130]
    sizes, x = [], torch.randn(2, 32, 32, 3)
    for layer in model:
        x = layer(x)
        sizes.append(tuple(x.shape[1:]))
    assert sizes[1:4] == [(64, 32, 32)] * 3
    blocks = [size for layer, size in zip(model, sizes, strict=True) if isinstance(layer, Residual)]
    assert blocks == [(planes, side, side) for planes, side in ((64, 32), (128, 16), (256, 8), (512, 4)) for _ in "12"]
    assert sizes[-2:] == [(512,), (10,)]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_residual_block_of_table_11_written_out(stride):
    model = build_model(CIFAR10, (16, 16, 3), 10)
    block, relu = model[4 : 4 + 2] if stride == 1 else model[8 : 8 + 2]
    planes = 64 * stride
    x = torch.randn(3, 64, 16, 16)

    def normal(y, weight, bias):  # by the batch's own mean and variance, as in training
        mean, variance = y.mean((0, 2, 3), keepdim=True), y.var((0, 2, 3), correction=0, keepdim=True)
        return (y - mean) / (variance + 1e-5).sqrt() * weight[:, None, None] + bias[:, None, None]

    w1, *norm1, w2 = list(block.parameters())[:4]
    norm2 = list(block.parameters())[4:6]
    assert w1.shape == (planes, 64, 3, 3)
    y = functional.relu(normal(functional.conv2d(x, w1, stride=stride, padding=1), *norm1))
    y = normal(functional.conv2d(y, w2, padding=1), *norm2)
    if stride == 1:
        assert len(list(block.parameters())) == 6
        expected = functional.relu(y + x)
    else:
        across, *norm3 = list(block.parameters())[6:]
        expected = functional.relu(y + normal(functional.conv2d(x, across, stride=2), *norm3))
    torch.testing.assert_close(relu(block(x)), expected, rtol=1e-4, atol=1e-4)


def test_one_example_of_the_smallest_image_can_train_and_of_a_smaller_one_cannot():
    model = build_model(CIFAR10, (9, 9, 3), 10)
    assert model(torch.randn(1, 9, 9, 3)).isfinite().all()
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        model(torch.randn(1, 8, 8, 3))


def test_shakespeare_lstm_scores_the_next_character_from_the_last_state():
    model = build_model(SHAKESPEARE, (7,), 90)
    shapes = [(90, 8), (1024, 8), (1024, 256), (1024,), (1024,), (1024, 256), (1024, 256), (1024,), (1024,)]
    assert [tuple(parameter.shape) for parameter in model.parameters()] == [*shapes, (90, 256), (90,)]
    codes = torch.randint(90, (3, 7))
    embedding, *lstm, weight, bias = model.parameters()
    x = embedding[codes]
    for input_weight, state_weight, input_bias, state_bias in (lstm[:4], lstm[4:]):
        state, cell, states = torch.zeros(3, 256), torch.zeros(3, 256), []
        for step in x.unbind(1):
            gates = step @ input_weight.t() + input_bias + state @ state_weight.t() + state_bias
            enter, forget, value, leave = gates.chunk(4, 1)
            cell = forget.sigmoid() * cell + enter.sigmoid() * value.tanh()
            state = leave.sigmoid() * cell.tanh()
            states.append(state)
        x = torch.stack(states, 1)
    torch.testing.assert_close(model(codes), state @ weight.t() + bias)
    assert torch.equal(model(codes.float()), model(codes))


def test_resnet_has_four_stages_each_half_the_size_of_the_one_before():
    model = build_model(CIFAR100ResNet18(name="cifar100_resnet18"), (64, 64, 3), 100)
    sizes, x = [], torch.randn(2, 64, 64, 3)
    for layer in model:
        x = layer(x)
        sizes.append(tuple(x.shape[1:]))
    stages = [(64, 16, 16)] * 2 + [(128, 8, 8)] * 2 + [(256, 4, 4)] * 2 + [(512, 2, 2)] * 2
    assert sizes[4] == (64, 16, 16)
    assert sizes[6:-2:2] == stages  # after each block's ReLU
    norms = [layer for layer in model.modules() if isinstance(layer, torch.nn.GroupNorm)]
    assert len(norms) == 1 + 8 * 2 + 3
    assert {norm.num_groups for norm in norms} == {2}


def test_settings_and_data_import_no_torch():
    code = "import sys, fedhpc.models.settings, fedhpc.data.preparation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("settings", [LOGISTIC, MLP(name="mlp", hidden=[7]), MLP(name="mlp", hidden=[9, 4])])
@pytest.mark.parametrize("batch", [1, 3, 20])
def test_the_closed_form_gradient_is_autograds(settings, batch):
    torch.manual_seed(batch)
    # Three clients, of which the first two train; the second's last row only fills up, unless it is its only one.
    clients = [build_model(settings, (3, 2), 5) for _ in range(3)]
    weights = torch.stack([flatten(client) for client in clients])
    gradient = torch.full_like(weights, 9.0)
    features, labels = torch.randn(2, batch, 3, 2), torch.randint(5, (2, batch))
    filled = [batch, max(1, batch - 1)]
    share = torch.zeros(2, batch, 1)
    for client in range(2):
        share[client, : filled[client]] = 1 / filled[client]
    targets = torch.nn.functional.one_hot(labels, 5) * share
    DenseGradient(clients[0], weights, gradient)(features.flatten(2), targets, share)
    for client in range(2):
        rows = slice(filled[client])
        torch.nn.functional.cross_entropy(clients[client](features[client, rows]), labels[client, rows]).backward()
        expected = torch.cat([parameter.grad.flatten() for parameter in clients[client].parameters()])
        torch.testing.assert_close(gradient[client], expected, rtol=1e-5, atol=1e-7)
    assert (gradient[2] == 9.0).all()
