"""Losses are the downloaded model's, as it is evaluated: in every form, with nothing dropped out."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from fedhpc.models.architectures import build_model
from fedhpc.optimizers import SGD
from tests.clients.steps.cases import CLASSES, DEVICES, MODELS, SHAPES, data_for, places, weights_for
from tests.clients.steps.test_statistics import DATA, resnet
from tests.clients.steps.test_statistics import MODEL as WITH_STATISTICS

CLIENT = ClientSettings(batch_size=4, steps=3, optimizer=SGD(name="sgd", rate=0.1))
MEMBERS = [Member(0, 1, 0, 3, 1.0), Member(0, 4, 0, 3, 1.0)]


def losses_of(module: torch.nn.Module, features: np.ndarray, labels: np.ndarray) -> float:
    module.eval()
    with torch.no_grad():
        scores = module(torch.from_numpy(features))
    return float(cross_entropy(scores, torch.from_numpy(labels), reduction="none").square().mean())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("model", "form"),
    [("mlp", "dense"), ("emnist_cnn", "plain"), ("emnist_cnn", "channels_last"), ("emnist_cnn", "stacked")],
)
def test_of_every_form(model: str, form: str, device: str) -> None:
    if form == "dense" and device != "cpu":
        pytest.skip("this form is not for this device")
    together = form in ("dense", "stacked")
    choice = StepChoice.model_validate({"form": form, "device": device, "clients": 2 if together else 1})
    prepare_device(choice, CLIENT.precision)
    data, weights = data_for(model), weights_for(model)
    ours = LocalTraining(MODELS[model], CLIENT, data, 0, 0, choice, measures_losses=True)
    versions = {0: weights[places(model, form)]}
    found = []
    for stack in [MEMBERS] if together else [[member] for member in MEMBERS]:
        ours.update(versions, stack, lambda: None)
        found += ours.losses
    module = build_model(MODELS[model], SHAPES[model], CLASSES)
    vector_to_parameters(torch.from_numpy(weights), module.parameters())
    for member, loss in zip(MEMBERS, found, strict=True):
        own = slice(data.offsets[member.client], data.offsets[member.client + 1])
        assert loss == pytest.approx(losses_of(module, data.features[own], data.labels[own]), rel=1e-4)


def test_running_statistics_are_the_downloaded_ones_and_stay_as_they_are() -> None:
    choice = StepChoice(form="plain")
    asked, unasked = (
        LocalTraining(WITH_STATISTICS, CLIENT, DATA, 4, 0, choice, measures_losses=measures)
        for measures in (True, False)
    )
    start = asked.initial_weights()
    start[-unasked.statistics :] += np.linspace(0.1, 0.9, unasked.statistics, dtype=np.float32)
    member = Member(0, 1, 0, 3, 1.0)
    updates = [training.update({0: start}, [member], lambda: None).tobytes() for training in (asked, unasked)]
    assert updates[0] == updates[1]
    assert asked.losses == [pytest.approx(losses_of(resnet(start), DATA.features[1:8], DATA.labels[1:8]), rel=1e-4)]
