import subprocess
import sys

import pytest
import torch

from fedhpc.models.architectures import build_model
from fedhpc.models.dense import DenseGradient
from fedhpc.models.settings import MLP, Logistic

LOGISTIC = Logistic(name="logistic")


@pytest.mark.parametrize(
    ("settings", "shape", "classes", "parameters"),
    [
        (LOGISTIC, (60,), 10, 60 * 10 + 10),
        (LOGISTIC, (28, 28), 10, 7850),  # the usual figure for MNIST
        (MLP(name="mlp"), (64,), 10, 64 * 64 + 64 + 64 * 10 + 10),
        (MLP(name="mlp", hidden=[5, 3]), (2, 2), 2, (4 * 5 + 5) + (5 * 3 + 3) + (3 * 2 + 2)),
    ],
)
def test_parameters_and_output_shape(settings, shape, classes, parameters):
    model = build_model(settings, shape, classes)
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


def test_settings_and_data_import_no_torch():
    code = "import sys, fedhpc.models.settings, fedhpc.data.preparation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("settings", [LOGISTIC, MLP(name="mlp", hidden=[7]), MLP(name="mlp", hidden=[9, 4])])
@pytest.mark.parametrize("batch", [1, 3, 20])
def test_the_closed_form_gradient_is_autograds(settings, batch):
    torch.manual_seed(batch)
    ours, theirs = build_model(settings, (3, 2), 5), build_model(settings, (3, 2), 5)
    theirs.load_state_dict(ours.state_dict())
    features, labels = torch.randn(batch, 3, 2), torch.randint(5, (batch,))
    for parameter in ours.parameters():
        parameter.grad = torch.full_like(parameter, 9.0)
    DenseGradient(list(ours.parameters()))(features, labels)
    torch.nn.functional.cross_entropy(theirs(features), labels).backward()
    for our, their in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(our.grad, their.grad, rtol=1e-5, atol=1e-7)
