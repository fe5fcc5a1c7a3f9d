"""Running statistics on the clients' side: what local training does to them and what it leaves alone."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.module_steps import ModuleSteps
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from fedhpc.data.federated import FederatedData
from fedhpc.models.architectures import build_model
from fedhpc.models.settings import CIFAR10ResNet18
from tests.clients.steps.plain_reference import BATCHES, batch_rows, stream

MODEL = CIFAR10ResNet18(name="cifar10_resnet18")
STATISTICS = 9_600  # a mean and a variance of 5 * (64 + 128 + 256 + 512) channels
OPTIMIZER = {"name": "sgd", "rate": 0.1, "momentum": 0.5, "weight_decay": 0.1}


def client(**more: Any) -> ClientSettings:
    return ClientSettings.model_validate({"batch_size": 4, "steps": 3, "optimizer": OPTIMIZER, **more})


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))


def statistics_of(module: nn.Module) -> torch.Tensor:
    """Means and variances, layer after layer."""
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)]
    return torch.cat([torch.cat([layer.running_mean, layer.running_var]) for layer in norms])


def plainly(
    module: nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]], proximal: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """The module's parameters and statistics at the end of torch's own SGD over the batches."""
    starts = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.5, weight_decay=0.1)
    with torch.enable_grad():
        for features, labels in batches:
            optimizer.zero_grad()
            loss = cross_entropy(module(features), labels)
            for parameter, start in zip(module.parameters(), starts, strict=True):
                loss = loss + proximal / 2 * (parameter - start).square().sum()
            loss.backward()
            optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()]), statistics_of(module)


@pytest.mark.parametrize("proximal", [0.0, 0.7])
def test_short_batches_are_cut_before_they_are_normalised(proximal: float) -> None:
    torch.manual_seed(1)
    filled, features, labels = [4, 2, 4, 3], torch.randn(4, 1, 4, 3), torch.randint(2, (4, 1, 4))
    for step, rows in enumerate(filled):
        features[step, :, rows:] = 1e6  # what fills up, were it seen, would be all that is seen
    batches = [(features[step, 0, :rows], labels[step, 0, :rows]) for step, rows in enumerate(filled)]
    parameters, statistics = plainly(small(), batches, proximal)
    steps = ModuleSteps(small(), client(proximal=proximal))
    steps.begin(steps.weights.clone(), None)
    steps.train(Chunk([1] * 4, [[rows] for rows in filled], features, labels, None), lambda: None)
    (ours,) = steps.weights
    torch.testing.assert_close(ours[: len(parameters)], parameters)
    torch.testing.assert_close(ours[len(parameters) :], statistics)
    assert ours[len(parameters) :].abs().max() < 10


DATA = FederatedData(
    features=np.random.default_rng(2).normal(1, 2, size=(8, 9, 9, 3)).astype(np.float32),
    labels=np.arange(8) % 3,
    offsets=np.array([0, 1, 8]),
    stragglers=np.zeros(2, bool),
    straggler_classes=np.empty(0, np.int64),
    test_features=np.random.default_rng(3).normal(1, 2, size=(6, 9, 9, 3)).astype(np.float32),
    test_labels=np.arange(6) % 3,
    classes=3,
    client_names=("0", "1"),
    class_names=("0", "1", "2"),
)


def training(form: str = "plain", **more: Any) -> LocalTraining:
    return LocalTraining(MODEL, client(**more), DATA, 4, 0, StepChoice.model_validate({"form": form}))


def resnet(vector: np.ndarray) -> nn.Module:
    """A module with the plain form's vector in it, of its own."""
    module = build_model(MODEL, (9, 9, 3), 3)
    position = 0
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
    places = [*module.parameters(), *(place for layer in norms for place in (layer.running_mean, layer.running_var))]
    for place in places:
        piece = torch.from_numpy(vector[position : position + place.numel()].copy())
        place.data.copy_(piece.view_as(place))
        position += place.numel()
    assert position == len(vector)
    return module


@pytest.mark.parametrize("owner", [0, 1])
def test_an_update_is_the_parameters_change_and_where_the_statistics_end(owner: int) -> None:
    # Of a client with one example, and of one with seven: batches of 4, 3 and 4.
    ours = training()
    start = ours.initial_weights()
    assert ours.statistics == STATISTICS
    assert start[-STATISTICS:].min() == 0
    rows = batch_rows(stream(4, 0, BATCHES, owner, 2), int(np.diff(DATA.offsets)[owner]), 4)
    batches = []
    for _ in range(3):
        batch = DATA.offsets[owner] + next(rows)
        batches.append((torch.from_numpy(DATA.features[batch]), torch.from_numpy(DATA.labels[batch])))
    parameters, statistics = plainly(resnet(start), batches)
    update = ours.update({0: start}, [Member(0, owner, 2, 3, 0.25)], lambda: None)
    change = 0.25 * (start[:-STATISTICS] - parameters.numpy())
    assert np.linalg.norm(update[:-STATISTICS] - change) < 1e-3 * np.linalg.norm(change)
    np.testing.assert_allclose(update[-STATISTICS:], 0.25 * statistics.numpy(), rtol=1e-3, atol=1e-5)


def test_a_clip_neither_counts_nor_shortens_statistics() -> None:
    start = training().initial_weights()
    member = [Member(0, 1, 0, 3, 0.5)]
    free = training().update({0: start}, member, lambda: None)
    length = float(np.linalg.norm(free[:-STATISTICS].astype(float))) / 0.5
    short = training(clip=length / 4).update({0: start}, member, lambda: None)
    assert np.linalg.norm(short[:-STATISTICS].astype(float)) == pytest.approx(0.5 * length / 4, rel=1e-5)
    np.testing.assert_array_equal(short[-STATISTICS:], free[-STATISTICS:])
    # Just above the parameters' own length: with the statistics beside them they would be too long.
    np.testing.assert_array_equal(training(clip=length * 1.001).update({0: start}, member, lambda: None), free)


def test_statistics_are_the_same_with_the_channels_last() -> None:
    updates = []
    for form in ("plain", "channels_last"):
        ours = training(form)
        updates.append(ours.update({0: ours.initial_weights()}, [Member(0, 1, 0, 2, 1.0)], lambda: None))
    np.testing.assert_allclose(updates[1][-STATISTICS:], updates[0][-STATISTICS:], rtol=1e-3, atol=1e-5)
    assert np.linalg.norm(updates[1]) == pytest.approx(np.linalg.norm(updates[0]), rel=1e-4)


def test_the_clients_before_leave_no_trace() -> None:
    ours = training()
    start = ours.initial_weights()
    alone = ours.update({0: start}, [Member(0, 1, 0, 2, 1.0)], lambda: None)
    ours.update({0: start}, [Member(0, 0, 5, 3, 1.0)], lambda: None)
    ours.evaluate(start, 0)
    again = ours.update({0: start}, [Member(0, 1, 0, 2, 1.0)], lambda: None)
    assert again.tobytes() == alone.tobytes()


def test_evaluation_normalises_by_the_statistics_and_leaves_them() -> None:
    ours = training()
    weights = ours.initial_weights()
    draw = np.random.default_rng(6)
    weights[-STATISTICS:] = draw.uniform(0.5, 2, STATISTICS)
    kept = weights.copy()
    counts = ours.evaluate(weights, 0)
    module = resnet(weights).eval()
    with torch.no_grad():
        scores = module(torch.from_numpy(DATA.test_features))
    labels = torch.from_numpy(DATA.test_labels)
    assert counts.correct == int((scores.argmax(1) == labels).sum())
    assert counts.loss == pytest.approx(float(cross_entropy(scores, labels, reduction="sum")), rel=1e-4)
    assert ours.initial_weights().tobytes() == kept.tobytes()


def test_statistics_stay_in_float32_where_products_are_bf16() -> None:
    ours = training(precision="bf16")
    start = ours.initial_weights()
    half = ours.update({0: start}, [Member(0, 1, 0, 1, 1.0)], lambda: None)[-STATISTICS:]
    whole = training().update({0: start}, [Member(0, 1, 0, 1, 1.0)], lambda: None)[-STATISTICS:]
    assert half.dtype == np.float32
    assert (half.view(np.uint32) & 0xFFFF).any()  # bits that bfloat16 has not
    np.testing.assert_allclose(half, whole, rtol=0.05, atol=0.05)
