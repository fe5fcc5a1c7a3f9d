"""Clients, models, optimisers and forms for the tests of steps, and what a form's flat vector means."""

from functools import cache

import numpy as np
import pytest
import torch

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from fedhpc.data.federated import FederatedData
from fedhpc.models.architectures import build_model
from fedhpc.models.channels_last import channels_last
from fedhpc.models.flat import flatten
from fedhpc.models.settings import EMNISTCNN, MLP, MNISTCNN, CIFAR100ResNet18, Logistic, Model

CLASSES = 3
SIZES = [5, 1, 7, 4, 9]
"""Examples of each client; with batches of 4 none, one or two are full, and most of the last ones are short."""

MODELS: dict[str, Model] = {
    "logistic": Logistic(name="logistic"),
    "mlp": MLP(name="mlp", hidden=[6, 5]),
    "emnist_cnn": EMNISTCNN(name="emnist_cnn"),
    "mnist_cnn": MNISTCNN(name="mnist_cnn"),
    "cifar100_resnet18": CIFAR100ResNet18(name="cifar100_resnet18"),
}
SHAPES: dict[str, tuple[int, ...]] = {
    "logistic": (3, 2),
    "mlp": (6,),
    "emnist_cnn": (8, 9),
    "mnist_cnn": (16, 18, 2),
    "cifar100_resnet18": (10, 12, 3),
}

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")),
]


@cache
def data_for(model: str) -> FederatedData:
    """Five unequal clients with random examples of the size that the model's tests use."""
    draw = np.random.default_rng(3)
    shape, total = SHAPES[model], sum(SIZES)
    return FederatedData(
        features=draw.normal(size=(total, *shape)).astype(np.float32),
        labels=draw.integers(CLASSES, size=total),
        offsets=np.cumsum([0, *SIZES]),
        stragglers=np.zeros(len(SIZES), bool),
        straggler_classes=np.array([1]),
        test_features=draw.normal(size=(6, *shape)).astype(np.float32),
        test_labels=draw.integers(CLASSES, size=6),
        classes=CLASSES,
        client_names=tuple(map(str, range(len(SIZES)))),
        class_names=tuple(map(str, range(CLASSES))),
    )


@cache
def weights_for(model: str, seed: int = 0) -> np.ndarray:
    """Weights in torch's order."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = build_model(MODELS[model], SHAPES[model], CLASSES)
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()]).numpy()


@cache
def places(model: str, form: str) -> np.ndarray:
    """Where each entry of the form's flat vector lies in torch's order: a module whose parameters hold their own
    positions is rewritten as the form does."""
    module = build_model(MODELS[model], SHAPES[model], CLASSES)
    position = 0
    for parameter in module.parameters():
        parameter.data = torch.arange(position, position + parameter.numel()).view_as(parameter).float()
        position += parameter.numel()
    assert position < 2**24  # float32 counts exactly so far
    return flatten(channels_last(module) if form in ("channels_last", "compiled") else module).long().numpy()


def training_for(model: str, client: ClientSettings, choice: StepChoice, seed: int = 0) -> LocalTraining:
    prepare_device(choice, client.precision)
    return LocalTraining(MODELS[model], client, data_for(model), seed, 0, choice)


def delta_of(
    training: LocalTraining,
    model: str,
    form: str,
    versions: dict[int, np.ndarray],
    members: list[Member],
) -> np.ndarray:
    """A stack's update, all in torch's order."""
    order = places(model, form)
    update = training.update({number: weights[order] for number, weights in versions.items()}, members, lambda: None)
    result = np.empty_like(update)
    result[order] = update
    return result


def away(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The distance relative to the length."""
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
