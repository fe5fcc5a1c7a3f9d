"""Clients that train together train as each does alone, whatever is beside, before or after it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedhpc.clients import local_training
from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import NO_TEACHER, Member, teacher_id
from fedhpc.optimizers import SGD, Adam
from tests.clients.steps.cases import DEVICES, away, training_for, weights_for

CAPACITY = 5
STACKS = {
    "dense": ("mlp", StepChoice(form="dense", clients=CAPACITY)),
    "patches": ("emnist_cnn", StepChoice(form="stacked", clients=CAPACITY, convolution="patches")),
    "grouped": ("emnist_cnn", StepChoice(form="stacked", clients=CAPACITY, convolution="grouped")),
    "captured": ("emnist_cnn", StepChoice(form="stacked", clients=CAPACITY, graph=True)),
}
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
ADAM = Adam(name="adam", rate=0.01, epsilon=1e-2, weight_decay=0.1)
MOMENTUM = SGD(name="sgd", rate=0.05, momentum=0.9)
# A client twice, one with one example only, one that ends in the middle, in no order.
MEMBERS = [Member(0, 2, 0, 3, 1.0), Member(0, 1, 1, 1, 1.0), Member(0, 2, 4, 6, 1.0), Member(0, 0, 0, 4, 1.0)]


FIRST_TEACHER, SECOND_TEACHER = teacher_id(0), teacher_id(5)
# Each with its own teacher: the version that it starts from, one that is no version, none, and another.
TAUGHT = [
    replace(member, teacher=teacher)
    for member, teacher in zip(MEMBERS, [0, FIRST_TEACHER, NO_TEACHER, SECOND_TEACHER], strict=True)
]
PLAIN_SGD = SGD(name="sgd", rate=0.1, weight_decay=0.1)
EVERYTHING: dict[str, Any] = {"proximal": 0.5, "distillation": 1.5, "clip": 0.05, "rate_normalization": True}


def make(stack: str, device: str, optimizer: Any = MOMENTUM, **settings: Any) -> tuple[str, LocalTraining]:
    model, choice = STACKS[stack]
    if (choice.form == "dense" and device != "cpu") or (choice.graph and device == "cpu"):
        pytest.skip("this form is not for this device")
    client = ClientSettings(batch_size=4, steps=6, optimizer=optimizer, **settings)
    return model, training_for(model, client, choice.model_copy(update={"device": device}))


def update(training: LocalTraining, model: str, members: list[Member]) -> np.ndarray:
    vectors = {0: weights_for(model), FIRST_TEACHER: weights_for(model, 1), SECOND_TEACHER: weights_for(model, 2)}
    return training.update(vectors, members, lambda: None)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_each_members_delta_is_what_it_is_alone(stack: str, optimizer: Any, device: str) -> None:
    model, training = make(stack, device, optimizer, proximal=0.5)
    for member in MEMBERS:
        # The others weigh nothing: what is left is the one member's delta.
        isolated = [Member(0, o.client, o.participation, o.steps, float(o is member)) for o in MEMBERS]
        assert away(update(training, model, isolated), update(training, model, [member])) < 1e-5


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", STACKS)
def test_each_member_has_its_own_teacher_clip_and_rates(stack: str, device: str) -> None:
    model, training = make(stack, device, PLAIN_SGD, **EVERYTHING)
    alone = [update(training, model, [member]) for member in TAUGHT]
    for member, own in zip(TAUGHT, alone, strict=True):
        isolated = [replace(other, weight=float(other is member)) for other in TAUGHT]
        assert away(update(training, model, isolated), own) < 1e-5
        # Other teachers are another update.
        for teacher in {NO_TEACHER, FIRST_TEACHER, SECOND_TEACHER} - {member.teacher}:
            assert away(update(training, model, [replace(member, teacher=teacher)]), own) > 1e-3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", STACKS)
def test_without_teachers_a_stack_trains_as_without_distillation(stack: str, device: str) -> None:
    model, training = make(stack, device, distillation=1.5)
    _, undistilled = make(stack, device)
    assert update(training, model, MEMBERS).tobytes() == update(undistilled, model, MEMBERS).tobytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", STACKS)
def test_distillation_that_is_off_asks_no_teacher(stack: str, device: str) -> None:
    model, training = make(stack, device)
    # It does not even look for them.
    ours = training.update({0: weights_for(model)}, TAUGHT, lambda: None)
    assert ours.tobytes() == update(training, model, MEMBERS).tobytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("members", [MEMBERS, TAUGHT], ids=["untaught", "taught"])
def test_the_teachers_before_leave_no_trace(stack: str, members: list[Member], device: str) -> None:
    model, training = make(stack, device, distillation=1.5)
    fresh = update(make(stack, device, distillation=1.5)[1], model, members)
    broken = {0: weights_for(model), FIRST_TEACHER: np.full_like(weights_for(model), np.nan)}
    training.update(broken, [replace(member, teacher=FIRST_TEACHER) for member in MEMBERS], lambda: None)
    assert update(training, model, members).tobytes() == fresh.tobytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_a_client_that_has_ended_does_not_move(stack: str, optimizer: Any, device: str) -> None:
    model, training = make(stack, device, optimizer, proximal=0.5)
    weights, before = training._steps.weights, []
    training.update({0: weights_for(model)}, MEMBERS, lambda: before.append(weights.clone()))
    before.append(weights.clone())
    assert len(before) == 6 + 1
    for row, steps in enumerate(sorted((member.steps for member in MEMBERS), reverse=True)):
        for step in range(6):
            moved = not torch.equal(before[step][row], before[step + 1][row])
            assert moved == (step < steps)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_a_larger_stack_before_leaves_no_trace(stack: str, optimizer: Any, device: str) -> None:
    model, training = make(stack, device, optimizer)
    fresh = update(make(stack, device, optimizer)[1], model, MEMBERS[:2])
    update(training, model, [*MEMBERS, Member(0, 4, 0, 6, 1.0)])
    training.evaluate(weights_for(model), 0)
    assert update(training, model, MEMBERS[:2]).tobytes() == fresh.tobytes()


@pytest.mark.parametrize("stack", ["dense", "patches"])
def test_the_members_order_is_of_no_consequence_beyond_their_ties(stack: str) -> None:
    model, training = make(stack, "cpu")
    assert update(training, model, MEMBERS).tobytes() == update(training, model, MEMBERS[::-1]).tobytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_of_one_counts_its_weight(stack: str, device: str) -> None:
    model, training = make(stack, device)
    once = update(training, model, [Member(0, 2, 0, 3, 1.0)])
    assert away(update(training, model, [Member(0, 2, 0, 3, -2.5)]), -2.5 * once) < 1e-6


@pytest.mark.parametrize("stack", ["dense", "patches"])
def test_how_many_steps_are_gathered_at_once_changes_no_bit(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, training = make(stack, "cpu")
    at_once = update(training, model, MEMBERS)
    monkeypatch.setattr(local_training, "_CHUNK_BYTES", 1)
    assert update(training, model, MEMBERS).tobytes() == at_once.tobytes()


@pytest.mark.parametrize("form", ["plain", "channels_last"])
@pytest.mark.parametrize("teacher", [NO_TEACHER, SECOND_TEACHER])
def test_clients_one_after_the_other_leave_no_trace(form: str, teacher: int) -> None:
    client = ClientSettings(batch_size=4, steps=3, optimizer=ADAM, proximal=0.5, distillation=0.5)
    used, fresh = (training_for("emnist_cnn", client, StepChoice(form=form)) for _ in range(2))
    update(used, "emnist_cnn", [Member(0, 4, 0, 3, 1.0, FIRST_TEACHER)])
    used.evaluate(weights_for("emnist_cnn"), 0)
    last = [Member(0, 1, 0, 3, 1.0, teacher)]
    assert update(used, "emnist_cnn", last).tobytes() == update(fresh, "emnist_cnn", last).tobytes()


@pytest.mark.parametrize("stack", ["dense", "patches"])
def test_the_vectors_that_are_given_stay_as_they_are(stack: str) -> None:
    model, training = make(stack, "cpu", PLAIN_SGD, **EVERYTHING)
    before = [weights_for(model, seed).copy() for seed in range(3)]
    update(training, model, TAUGHT)
    assert all(weights_for(model, seed).tobytes() == before[seed].tobytes() for seed in range(3))


@pytest.mark.parametrize("stack", ["dense", "patches"])
def test_between_steps_is_called_before_each(stack: str) -> None:
    model, training = make(stack, "cpu")
    calls: list[int] = []
    training.update({0: weights_for(model)}, MEMBERS, lambda: calls.append(1))
    assert len(calls) == max(member.steps for member in MEMBERS)


@GPU
@pytest.mark.parametrize(
    ("optimizer", "more"),
    [(MOMENTUM, {"proximal": 0.5}), (ADAM, {"proximal": 0.5, "distillation": 1.5}), (PLAIN_SGD, EVERYTHING)],
    ids=["momentum", "adam", "everything"],
)
@pytest.mark.parametrize("convolution", ["patches", "grouped"])
def test_a_replayed_step_is_the_step(optimizer: Any, more: dict[str, Any], convolution: str) -> None:
    client = ClientSettings(batch_size=4, steps=6, optimizer=optimizer, **more)

    def twice(graph: bool) -> list[np.ndarray]:
        choice = {"form": "stacked", "device": "cuda", "clients": CAPACITY, "convolution": convolution, "graph": graph}
        training = training_for("emnist_cnn", client, StepChoice.model_validate(choice))
        return [update(training, "emnist_cnn", TAUGHT) for _ in range(2)]

    step_by_step, (capturing, replayed) = twice(False)[0], twice(True)
    assert capturing.tobytes() == replayed.tobytes()
    assert away(replayed, step_by_step) < 1e-6


@GPU
def test_captured_steps_share_their_memory() -> None:
    model, training = make("captured", "cuda")
    update(training, model, MEMBERS)
    captured = training._steps._captured  # type: ignore[attr-defined]
    assert sorted(captured) == [1, 2, 3, 4]
    assert len({graph.pool() for graph, _ in captured.values()}) == 1


@GPU
@pytest.mark.parametrize("stack", ["patches", "captured"])
def test_examples_that_do_not_fit_on_the_gpu_are_brought_there(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, on_gpu = make(stack, "cuda")
    expected = update(on_gpu, model, MEMBERS)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (0, 0))
    _, at_home = make(stack, "cuda")
    assert at_home._features.device.type == "cpu"
    assert update(at_home, model, MEMBERS).tobytes() == expected.tobytes()
    assert at_home.evaluate(weights_for(model), 0) == on_gpu.evaluate(weights_for(model), 0)
