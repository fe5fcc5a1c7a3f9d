"""A client's update with a coreset against the same written plainly: torch.nn, autograd, double precision.

The features that the coreset is built from are computed here as section 4.3 of FedCore has them; the coreset itself is
``build_coreset``'s, which has tests of its own.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedhpc.clients.coreset import build_coreset
from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from tests.clients.steps.cases import MODELS, away, data_for, delta_of, training_for, weights_for
from tests.clients.steps.plain_reference import batch_rows, plain_module, step_bytes, stream

BATCHES, DROPOUT, CORESET = 4, 6, 13
EPOCHS, SIZE = 3, 3
CLIENT = 4  # of nine examples, in batches of 4, 4 and 1
VERSION = 7


def client(**settings: Any) -> ClientSettings:
    values = {"batch_size": 4, "epochs": EPOCHS, "optimizer": {"name": "sgd", "rate": 0.1, "momentum": 0.5}}
    return ClientSettings.model_validate({**values, "within_deadline": "coreset", **settings})


def plainly(model: str, settings: ClientSettings, participation: int, whole: int) -> tuple[np.ndarray, float] | None:
    """Start minus end in torch's order, and the error of equation 2 at the model that the coreset was built for; None
    where medoids are so nearly as good as others that the last bits of the features choose."""
    data, weights = data_for(model), torch.from_numpy(weights_for(model)).double()
    first, last = data.offsets[CLIENT], data.offsets[CLIENT + 1]
    features = torch.from_numpy(data.features[first:last])
    labels = torch.from_numpy(data.labels[first:last])
    module = plain_module(MODELS[model], data.shape, data.classes).double()
    nn.utils.vector_to_parameters(weights.clone(), module.parameters())
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.5)
    order = stream(0, 0, BATCHES, CLIENT, participation)
    bytes_a_batch = 4 * module.bytes_an_example
    noises = step_bytes(stream(0, 0, DROPOUT, CLIENT, participation), bytes_a_batch, "cpu")

    def gradients(scores: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        errors = scores.detach().softmax(1) - functional.one_hot(of, data.classes)
        return errors @ list(module.parameters())[-2].detach()

    def step(rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        noise = torch.from_numpy(next(noises).copy()).view(4, -1)[: len(rows)] if bytes_a_batch else None
        scores = module(features[rows].double(), noise)
        losses = functional.cross_entropy(scores, labels[rows], reduction="none")
        now = nn.utils.parameters_to_vector(module.parameters())
        optimizer.zero_grad()
        loss = (losses * counts).sum() / counts.sum()
        known = gradients(scores, labels[rows])  # by the model before the step
        (loss + settings.proximal / 2 * (now - weights).square().sum()).backward()
        optimizer.step()
        return known

    found = torch.zeros(len(labels), 0)
    if whole:
        pieces = torch.from_numpy(order.permutation(len(labels))).split(4)
        known = torch.cat([step(rows, torch.ones(len(rows))) for rows in pieces])
        found = torch.empty_like(known)
        found[torch.cat(pieces)] = known
    else:
        found = gradients(module(features.double(), None), labels)
    key = participation
    if model == "logistic":
        found, key = features.flatten(1), 0
    coreset = build_coreset(found.float(), SIZE, stream(0, 0, CORESET, CLIENT, key))
    noise = torch.Generator().manual_seed(0)
    for _ in range(20):
        nudged = found + 1e-5 * found.std() * torch.randn(found.shape, generator=noise)
        other = build_coreset(nudged.float(), SIZE, stream(0, 0, CORESET, CLIENT, key))
        if not np.array_equal([other.rows, other.weights], [coreset.rows, coreset.weights]):
            return None
    error = torch.zeros(len(weights)).double()
    for row in range(len(labels)):
        module.zero_grad()
        functional.cross_entropy(module(features[row : row + 1].double(), None), labels[row : row + 1]).backward()
        counts = 1 - coreset.weights[coreset.rows == row].sum()
        error += float(counts) * nn.utils.parameters_to_vector([one.grad for one in module.parameters()])  # type: ignore[misc]
    batches = batch_rows(order, SIZE, 4)
    for _ in range(EPOCHS - whole):
        own = next(batches)
        step(torch.from_numpy(coreset.rows[own]), torch.from_numpy(coreset.weights[own]))
    delta = weights - nn.utils.parameters_to_vector(module.parameters()).detach()
    return delta.numpy(), float(error.norm())


def member(participation: int, whole: int) -> Member:
    steps = 3 * whole + (EPOCHS - whole)
    return Member(VERSION, CLIENT, participation, steps, 1.0, coreset=SIZE, whole_epochs=whole)


CASES = [
    ("logistic", StepChoice(form="dense")),
    ("logistic", StepChoice(form="dense", clients=5)),
    ("logistic", StepChoice(form="plain")),
    ("mlp", StepChoice(form="plain")),
    ("emnist_cnn", StepChoice(form="plain")),
    ("emnist_cnn", StepChoice(form="channels_last")),
    ("mnist_cnn", StepChoice(form="channels_last")),
]


@pytest.mark.parametrize("whole", [1, 0])
@pytest.mark.parametrize(("model", "choice"), CASES, ids=lambda case: getattr(case, "form", case))
def test_an_update_is_the_plain_one(model: str, choice: StepChoice, whole: int) -> None:
    settings = client(proximal=0.3, record_coreset_error=True)
    training = training_for(model, settings, choice)
    compared = 0
    for participation in range(40):
        if compared == 2:
            break
        plain = plainly(model, settings, participation, whole)
        if plain is None:
            continue
        compared += 1
        expected, error = plain
        found = delta_of(training, model, choice.form, {VERSION: weights_for(model)}, [member(participation, whole)])
        assert away(found, expected) < 2e-4
        assert training.coreset_error == pytest.approx(error, rel=1e-3)
    assert compared == 2


def test_the_error_is_of_the_last_update_only_and_where_it_is_asked_for() -> None:
    start = {VERSION: weights_for("mlp")}
    asked, unasked = (
        training_for("mlp", client(record_coreset_error=asked), StepChoice(form="plain")) for asked in (True, False)
    )
    for training in (asked, unasked):
        training.update(start, [member(0, 1)], lambda: None)
    assert asked.coreset_error > 0
    assert np.isnan(unasked.coreset_error)
    asked.update(start, [Member(VERSION, CLIENT, 0, 3, 1.0)], lambda: None)
    assert np.isnan(asked.coreset_error)


@pytest.mark.parametrize(("model", "form"), [("logistic", "dense"), ("mlp", "plain"), ("emnist_cnn", "channels_last")])
def test_a_client_with_a_coreset_leaves_no_trace(model: str, form: Any) -> None:
    # Law 2: whatever a rank has trained before, and evaluated, an update is the same bytes.
    def fresh() -> LocalTraining:
        return training_for(model, client(), StepChoice(form=form))

    start = {VERSION: weights_for(model)}
    used = fresh()
    for participation in range(3):
        used.update(start, [member(participation, participation % 2)], lambda: None)
        used.update(start, [Member(VERSION, 2, participation, 4, 1.0)], lambda: None)
    used.evaluate(weights_for(model), 0)
    for one in (member(9, 1), member(9, 0), Member(VERSION, 3, 1, 2, 1.0)):
        expected = fresh().update(start, [one], lambda: None)
        assert used.update(start, [one], lambda: None).tobytes() == expected.tobytes()
