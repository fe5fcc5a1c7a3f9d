"""Every form of a step computes what a plain loop of torch does, to 1e-5 of the client update's length."""

from functools import cache

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member, teacher_id
from fedhpc.optimizers import SGD, Adagrad, Adam, AdamW, Yogi
from tests.clients.steps.cases import (
    DEVICES,
    MODELS,
    SIZES,
    away,
    data_for,
    delta_of,
    places,
    training_for,
    weights_for,
)
from tests.clients.steps.plain_reference import plain_module, reference_delta

BATCH = 4
OPTIMIZERS = {
    "sgd": {"optimizer": SGD(name="sgd", rate=0.1)},
    "momentum": {"optimizer": SGD(name="sgd", rate=0.05, momentum=0.9, weight_decay=0.1)},
    "proximal": {"optimizer": SGD(name="sgd", rate=0.1), "proximal": 0.5},
    "distilled": {"optimizer": SGD(name="sgd", rate=0.1), "distillation": 0.7},
    "clipped": {"optimizer": SGD(name="sgd", rate=0.1), "clip": 0.01},
    "normalized": {"optimizer": SGD(name="sgd", rate=0.1), "rate_normalization": True},
    "all": {
        "optimizer": SGD(name="sgd", rate=0.1, weight_decay=0.2),
        "proximal": 0.5,
        "distillation": 1.5,
        "clip": 0.01,
        "rate_normalization": True,
    },
    # An epsilon that is large beside rounding: gradients near zero would else be steps of full length.
    "adam": {"optimizer": Adam(name="adam", rate=0.01, epsilon=1e-2)},
    "adagrad": {"optimizer": Adagrad(name="adagrad", rate=0.01, epsilon=1e-2)},
    "yogi": {"optimizer": Yogi(name="yogi", rate=0.01, epsilon=1e-2)},
    "adamw": {
        "optimizer": AdamW(name="adamw", rate=0.01, epsilon=1e-2, weight_decay=0.1),
        "proximal": 0.1,
        "distillation": 0.3,
    },
}
FORMS = {
    "plain": StepChoice(form="plain"),
    "channels_last": StepChoice(form="channels_last"),
    "patches": StepChoice(form="stacked", clients=3, convolution="patches"),
    "grouped": StepChoice(form="stacked", clients=3, convolution="grouped"),
}
DENSE = {"dense": StepChoice(form="dense", clients=3)}
TEACHER, TEACHER_SEED = teacher_id(4), 9
STEPS = 5
"""Of a client with 7 examples and batches of 4: two full batches and two short ones, and one of a third pass."""


def settings(optimizer: str, **more: object) -> ClientSettings:
    return ClientSettings.model_validate({"batch_size": BATCH, "steps": STEPS, **OPTIMIZERS[optimizer], **more})


@cache
def theirs(model: str, optimizer: str, client: int, participation: int, steps: int, device: str) -> np.ndarray:
    key, chosen = (client, participation), settings(optimizer)
    return reference_delta(
        MODELS[model],
        chosen,
        data_for(model),
        weights_for(model),
        key,
        steps,
        seed=5,
        device=device,
        teacher=weights_for(model, TEACHER_SEED) if chosen.distillation else None,
    )


def vectors(model: str) -> dict[int, np.ndarray]:
    """Version 0 and the teacher."""
    return {0: weights_for(model), TEACHER: weights_for(model, TEACHER_SEED)}


CASES = [
    *(("logistic", form, optimizer) for form in {**FORMS, **DENSE} for optimizer in OPTIMIZERS),
    *(("mlp", form, optimizer) for form in {**FORMS, **DENSE} for optimizer in OPTIMIZERS),
    *(("emnist_cnn", form, optimizer) for form in FORMS for optimizer in OPTIMIZERS),
    *(("mnist_cnn", form, optimizer) for form in FORMS for optimizer in ("momentum", "adam")),
    *(("cifar100_resnet18", form, "momentum") for form in FORMS),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("model", "form", "optimizer"), CASES)
def test_a_form_takes_the_references_steps(model: str, form: str, optimizer: str, device: str) -> None:
    choice = {**FORMS, **DENSE}[form].model_copy(update={"device": device})
    if choice.form == "dense" and device != "cpu":
        pytest.skip("the closed form is for CPUs")
    steps = 2 if model == "cifar100_resnet18" else STEPS
    training = training_for(model, settings(optimizer), choice, seed=5)
    ours = delta_of(training, model, choice.form, vectors(model), [Member(0, 2, 1, steps, 1.0, TEACHER)])
    assert SIZES[2] == 7
    assert away(ours, theirs(model, optimizer, 2, 1, steps, device)) < 1e-5


@pytest.mark.parametrize("model", ["logistic", "mlp", "emnist_cnn"])
def test_the_clips_are_short_enough_to_count(model: str) -> None:
    unclipped = {name: settings(name).model_copy(update={"clip": None}) for name in ("clipped", "all")}
    for name, client in unclipped.items():
        teacher = weights_for(model, TEACHER_SEED) if client.distillation else None
        for key, steps in (((2, 1), STEPS), ((1, 0), 2), ((4, 0), 1)):
            free = reference_delta(
                MODELS[model], client, data_for(model), weights_for(model), key, steps, seed=5, teacher=teacher
            )
            assert np.linalg.norm(free) > 1.1 * settings(name).clip


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_the_compiled_form_takes_the_references_steps(device: str) -> None:
    model, choice = "emnist_cnn", StepChoice.model_validate({"form": "compiled", "device": device})
    training = training_for(model, settings("all"), choice, seed=5)
    # Three steps: batches of 4, 3 and 4, so that two sizes are compiled.
    ours = delta_of(training, model, choice.form, vectors(model), [Member(0, 2, 1, 3, 1.0, TEACHER)])
    assert away(ours, theirs(model, "all", 2, 1, 3, device)) < 1e-5


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", ["dense", "patches", "grouped"])
@pytest.mark.parametrize("optimizer", ["momentum", "adamw", "all"])
def test_a_ragged_stack_is_the_weighted_sum_of_its_members(form: str, optimizer: str, device: str) -> None:
    model = "mlp" if form == "dense" else "emnist_cnn"
    choice = {**FORMS, **DENSE}[form].model_copy(update={"device": device})
    if choice.form == "dense" and device != "cpu":
        pytest.skip("the closed form is for CPUs")
    # A client with one example; another twice; step counts in no order.
    members = [Member(0, 1, 0, 2, 0.5, TEACHER), Member(0, 4, 3, 5, -2.0, TEACHER), Member(0, 4, 0, 1, 0.75, TEACHER)]
    training = training_for(model, settings(optimizer), choice, seed=5)
    ours = delta_of(training, model, choice.form, vectors(model), members)
    expected = sum(
        member.weight * theirs(model, optimizer, member.client, member.participation, member.steps, device)
        for member in members
    )
    assert away(ours, expected) < 1e-5


@pytest.mark.parametrize("form", ["dense", "patches"])
def test_members_of_a_stack_start_from_their_own_versions(form: str) -> None:
    model = "mlp" if form == "dense" else "emnist_cnn"
    versions = {3: weights_for(model), 8: weights_for(model, seed=1), TEACHER: weights_for(model, TEACHER_SEED)}
    # And learn from their own teachers: a version, none, and a teacher that is no version.
    members = [Member(8, 0, 0, 3, 0.5, 3), Member(3, 2, 0, 2, 1.0), Member(8, 4, 0, 1, 2.0, TEACHER)]
    client = settings("all")
    training = training_for(model, client, {**FORMS, **DENSE}[form])
    ours = delta_of(training, model, "plain", versions, members)
    expected = sum(
        member.weight
        * reference_delta(
            MODELS[model],
            client,
            data_for(model),
            versions[member.version],
            (member.client, 0),
            member.steps,
            teacher=versions.get(member.teacher),
        )
        for member in members
    )
    assert away(ours, expected) < 1e-5


@pytest.mark.parametrize("form", [*FORMS, "dense"])
def test_evaluation_is_the_references_whatever_the_order_of_memory(form: str) -> None:
    model = "mlp" if form == "dense" else "emnist_cnn"
    choice, data = {**FORMS, **DENSE}[form], data_for(model)
    training = training_for(model, settings("sgd"), choice)
    counts = training.evaluate(weights_for(model)[places(model, choice.form)], 0)
    module = plain_module(MODELS[model], data.shape, data.classes)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(weights_for(model).copy()), module.parameters())
    labels = torch.from_numpy(data.test_labels)
    with torch.no_grad():
        scores = module(torch.from_numpy(data.test_features), None)
    hits = scores.argmax(1) == labels
    assert counts.correct == int(hits.sum())
    assert counts.straggler_correct == int((hits & (labels == 1)).sum())
    assert counts.loss == pytest.approx(float(cross_entropy(scores, labels, reduction="sum")), 1e-5)
