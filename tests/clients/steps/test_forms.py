"""Every way to compute a step gives what plain torch gives, to 1e-5 of the update."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from fedhpc.data.federated import FederatedData
from fedhpc.models.settings import EMNISTCNN, MLP, MNISTCNN, CIFAR100ResNet18, Logistic, Model
from tests.clients.steps.reference import SEED, TRIAL, delta, images, places

SGD = {"name": "sgd", "rate": 0.05}
MOMENTUM = {"name": "sgd", "rate": 0.05, "momentum": 0.9, "weight_decay": 0.01}
ADAM = {"name": "adam", "rate": 0.001, "epsilon": 1e-3}
SIZES = [7, 1, 12, 4]
MODELS: dict[str, tuple[Model, tuple[int, ...]]] = {
    "logistic": (Logistic(name="logistic"), (3, 2)),
    "mlp": (MLP(name="mlp", hidden=[9, 5]), (6,)),
    "emnist_cnn": (EMNISTCNN(name="emnist_cnn"), (8, 8)),
    "mnist_cnn": (MNISTCNN(name="mnist_cnn"), (16, 16, 2)),
    "resnet": (CIFAR100ResNet18(name="cifar100_resnet18"), (8, 8, 3)),
}
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU on this machine")
    ),
]


def client(optimizer: dict[str, Any], **settings: Any) -> ClientSettings:
    return ClientSettings.model_validate({"batch_size": 5, "epochs": 1, "optimizer": optimizer, **settings})


def training(model: Model, settings: ClientSettings, data: FederatedData, choice: StepChoice) -> LocalTraining:
    prepare_device(choice, settings.precision)
    return LocalTraining(model, settings, data, SEED, TRIAL, choice)


def nothing() -> None:
    pass


def close(found: np.ndarray, expected: np.ndarray, within: float = 1e-5) -> bool:
    """Whether the vectors differ by so little of the expected one's length."""
    return bool(np.linalg.norm(found - expected) <= within * np.linalg.norm(expected))


CASES = [
    ("logistic", "dense", SGD, 0.0),
    ("logistic", "stacked", SGD, 0.0),
    ("mlp", "dense", MOMENTUM, 0.3),
    ("mlp", "dense", ADAM, 0.0),
    ("mlp", "plain", SGD, 0.3),
    ("mlp", "stacked", ADAM, 0.3),
    ("emnist_cnn", "plain", SGD, 0.0),
    ("emnist_cnn", "channels_last", MOMENTUM, 0.3),
    ("emnist_cnn", "stacked", SGD, 0.3),
    ("mnist_cnn", "channels_last", ADAM, 0.0),
    ("mnist_cnn", "stacked", MOMENTUM, 0.0),
    ("resnet", "channels_last", SGD, 0.0),
    ("resnet", "stacked", SGD, 0.0),
    pytest.param("emnist_cnn", "compiled", SGD, 0.0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "form", "optimizer", "proximal"), CASES)
def test_a_form_agrees_with_plain_torch(
    name: str, form: Any, optimizer: dict[str, Any], proximal: float, device: Any
) -> None:
    if form == "dense" and device == "cuda":
        pytest.skip("the closed form is for CPUs")
    model, shape = MODELS[name]
    data, settings = images(shape, SIZES, 4), client(optimizer, proximal=proximal)
    ours = training(model, settings, data, StepChoice(form=form, device=device))
    # Two passes of seven examples in batches of five: 5, 2, 5.
    member = Member(0, 0, 3, 3, 0.5)
    weights = ours.initial_weights()
    order = places(model, data) if form in ("channels_last", "compiled") else np.arange(len(weights))
    plain = np.empty_like(weights)
    plain[order] = weights
    expected = 0.5 * delta(model, settings, data, plain, member)
    # Another participation before it leaves no trace.
    ours.update({0: weights * 1.5}, [Member(0, 2, 0, 2, 1.0)], nothing)
    assert close(ours.update({0: weights}, [member], nothing), expected[order])


STACKS = [("mlp", "dense", "patches"), ("emnist_cnn", "stacked", "patches"), ("mnist_cnn", "stacked", "grouped")]
MEMBERS = [
    Member(0, 0, 0, 2, 0.5),
    Member(1, 1, 0, 6, 2.0),  # one example only, and six steps
    Member(0, 2, 4, 5, 0.25),
    Member(0, 0, 1, 2, -1.0),  # the first client once more
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimizer", [SGD, MOMENTUM, ADAM], ids=["sgd", "momentum", "adam"])
@pytest.mark.parametrize(("name", "form", "convolution"), STACKS)
def test_a_stack_is_the_weighted_sum_of_its_clients_alone(
    name: str, form: Any, convolution: Any, optimizer: dict[str, Any], device: Any
) -> None:
    if form == "dense" and device == "cuda":
        pytest.skip("the closed form is for CPUs")
    model, shape = MODELS[name]
    data, settings = images(shape, SIZES, 4), client(optimizer, proximal=0.1)
    choice = StepChoice(form=form, device=device, clients=6, convolution=convolution)
    ours = training(model, settings, data, choice)
    versions = {0: ours.initial_weights()}
    versions[1] = versions[0] + np.float32(0.01)
    alone = [delta(model, settings, data, versions[member.version], member) for member in MEMBERS]
    expected = sum(member.weight * own for member, own in zip(MEMBERS, alone, strict=True))
    full = [Member(0, 3, place, 3, 1.0) for place in range(6)]
    ours.update(versions, full, nothing)  # a fuller stack before it leaves no trace
    assert close(ours.update(versions, MEMBERS, nothing), expected)
    for member, own in zip(MEMBERS, alone, strict=True):
        # The others weigh nothing, and still train beside it.
        silenced = [
            other if other is member else Member(other.version, other.client, other.participation, other.steps, 0.0)
            for other in MEMBERS
        ]
        assert close(ours.update(versions, silenced, nothing), member.weight * own)


def test_a_finished_clients_parameters_no_longer_move() -> None:
    model, shape = MODELS["mlp"]
    data, settings = images(shape, SIZES, 4), client(ADAM)
    ours = training(model, settings, data, StepChoice(form="dense", clients=3))
    versions = {0: ours.initial_weights()}
    rows: list[torch.Tensor] = []
    members = [Member(0, 0, 0, 2, 1.0), Member(0, 2, 0, 5, 1.0), Member(0, 3, 0, 1, 1.0)]
    ours.update(versions, members, lambda: rows.append(ours._steps.weights.clone()))
    # Before each of the five steps; the longest client is row 0, the shortest row 2.
    moved = [
        [not torch.equal(before[row], after[row]) for row in range(3)] for before, after in itertools.pairwise(rows)
    ]
    assert moved == [[True, True, True], [True, True, False], [True, False, False], [True, False, False]]


@pytest.mark.parametrize("name", ["emnist_cnn", "mnist_cnn"])
def test_half_precision_is_near_and_another(name: str) -> None:
    model, shape = MODELS[name]
    data = images(shape, SIZES, 4)
    updates = []
    for precision in ("fp32", "bf16"):
        ours = training(model, client(SGD, precision=precision), data, StepChoice(form="channels_last"))
        updates.append(ours.update({0: ours.initial_weights()}, [Member(0, 0, 0, 1, 1.0)], nothing))
    # bfloat16 has eight bits of mantissa: half a percent a rounding, and another winner here and there in a pooling.
    assert not close(updates[1], updates[0], 1e-4)
    assert close(updates[1], updates[0], 0.2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU on this machine")
@pytest.mark.parametrize("name", ["mlp", "emnist_cnn"])
def test_a_captured_step_is_the_same_step(name: str) -> None:
    model, shape = MODELS[name]
    data, settings = images(shape, SIZES, 4), client(ADAM, proximal=0.1)
    updates = []
    for graph in (False, True):
        choice = StepChoice(form="stacked", device="cuda", clients=6, graph=graph)
        ours = training(model, settings, data, choice)
        versions = {0: ours.initial_weights(), 1: ours.initial_weights() + np.float32(0.01)}
        updates.append([ours.update(versions, MEMBERS, nothing) for _ in range(2)])
    for eager, captured in zip(*updates, strict=True):
        assert close(captured, eager, 1e-6)
