"""The papers' models as clients train them: in both eager forms alike, as the key alone says, and with a loss that
falls on a tiny problem."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from fedhpc.data.federated import FederatedData
from fedhpc.models.architectures import build_model
from fedhpc.models.dropout import give_noise, noise_bytes
from fedhpc.models.settings import (
    CelebACNN,
    EfficientNet,
    Model,
    ResNet34,
    Sent140LSTM,
    ShuffleNet,
    Transformer,
    UNet3D,
)

WORDS = ("<padding>", "a", "b", "c", "d", "<unknown>")
CASES: dict[str, tuple[Model, tuple[int, ...]]] = {
    "celeba_cnn": (CelebACNN(name="celeba_cnn"), (9, 10, 3)),
    "resnet34": (ResNet34(name="resnet34"), (9, 9)),
    "shufflenet": (ShuffleNet(name="shufflenet"), (9, 9, 3)),
    "efficientnet_b0": (EfficientNet(name="efficientnet_b0"), (9, 9, 3)),
    "sent140_lstm": (Sent140LSTM(name="sent140_lstm"), (5,)),
}
"""Model and shape of an example."""

EXAMPLES = 9
"""Of the one client: with batches of 4, one example is the last."""


def data_for(shape: tuple[int, ...]) -> FederatedData:
    """Two classes, told by whether features are positive, or by a text's words."""
    draw = np.random.default_rng(7)
    labels = np.arange(EXAMPLES) % 2
    if len(shape) == 1:
        features = draw.integers(1, 3, (EXAMPLES, *shape)) + 2 * labels[:, None]
    else:
        features = draw.normal(size=(EXAMPLES, *shape)) + (2 * labels - 1).reshape(-1, *[1] * len(shape))
    return FederatedData(
        features=features.astype(np.float32),
        labels=labels,
        offsets=np.array([0, EXAMPLES]),
        stragglers=np.zeros(1, bool),
        straggler_classes=np.empty(0, np.int64),
        test_features=features.astype(np.float32),
        test_labels=labels,
        classes=2,
        client_names=("0",),
        class_names=("0", "1"),
        words=WORDS,
    )


def training(name: str, form: str, **client: object) -> LocalTraining:
    model, shape = CASES[name]
    settings = {"batch_size": 4, "steps": 3, "optimizer": {"name": "sgd", "rate": 0.05}, **client}
    choice = StepChoice.model_validate({"form": form})
    torch.set_num_threads(1)
    return LocalTraining(model, ClientSettings.model_validate(settings), data_for(shape), 3, 0, choice)


@pytest.mark.parametrize("name", CASES)
def test_an_update_is_its_keys_alone(name: str) -> None:
    ours, other = training(name, "channels_last"), training(name, "channels_last")
    start = ours.initial_weights()
    assert start.tobytes() == other.initial_weights().tobytes()
    member = Member(0, 0, 4, 3, 1.0)  # batches of 4, 4 and 1
    first = ours.update({0: start}, [member], lambda: None)
    assert np.isfinite(first).all()
    # Whoever trains before leaves no trace.
    other.update({0: start}, [Member(0, 0, 5, 1, 1.0)], lambda: None)
    other.evaluate(start, 0)
    assert other.update({0: start}, [member], lambda: None).tobytes() == first.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_both_eager_forms_agree(name: str) -> None:
    updates = []
    for form in ("plain", "channels_last"):
        ours = training(name, form)
        update = ours.update({0: ours.initial_weights()}, [Member(0, 0, 1, 1, 1.0)], lambda: None)
        # In another order of memory the same numbers.
        updates.append(np.sort(update))
    assert np.linalg.norm(updates[1] - updates[0]) < 1e-3 * np.linalg.norm(updates[0])


@pytest.mark.parametrize("name", CASES)
def test_the_loss_falls(name: str) -> None:
    model, shape = CASES[name]
    torch.manual_seed(0)
    module = build_model(model, shape, 2, WORDS)
    data = data_for(shape)
    losses = losses_of(module, torch.from_numpy(data.features[:8]), torch.from_numpy(data.labels[:8]), shape)
    assert min(losses) < 0.8 * losses[0]


@pytest.mark.parametrize(
    ("model", "shape"),
    [(Transformer(name="transformer", width=16), (6,)), (UNet3D(name="unet3d"), (4, 8, 4))],
    ids=["transformer", "unet3d"],
)
def test_the_loss_of_each_place_falls(model: Model, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    module = build_model(model, shape, 5)
    if len(shape) == 1:  # the next number
        features = (torch.arange(6) + torch.arange(4)[:, None]) % 5
        labels = (features + 1) % 5
    else:
        features = torch.randn(4, *shape)
        labels = (features > 0).long()
    assert module(features.float()).shape == (4, *shape, 5)
    losses = losses_of(module, features.float(), labels, shape)
    assert min(losses) < 0.8 * losses[0]


def losses_of(
    module: torch.nn.Module, features: torch.Tensor, labels: torch.Tensor, shape: tuple[int, ...]
) -> list[float]:
    """Before each of a few steps of Adam on one batch, with nothing dropped out."""
    noise = torch.full((len(features), noise_bytes(module, shape)), 255, dtype=torch.uint8)
    optimizer, losses = torch.optim.Adam(module.parameters(), 0.002), []
    for _ in range(10):
        give_noise(module, noise)
        loss = cross_entropy(module(features).flatten(0, -2), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
