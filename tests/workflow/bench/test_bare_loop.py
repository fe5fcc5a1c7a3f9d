"""The bare loop trains what the run trains, in plain torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.data.federated import FederatedData, open_prepared
from fedhpc.data.preparation import prepared_data
from fedhpc.experiment import Experiment, Run, load_experiment
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.updates import Participation
from workflow.bench.bare_loop import BareLoop, dealt, plain_model
from workflow.bench.workloads import PARAMETERS

CELL = Run("fedavg", "alike", 0)


def images(classes: int) -> FederatedData:
    pixels, labels = np.zeros((4, 28, 28), np.float32), np.zeros(4, np.int64)
    return FederatedData(
        features=pixels,
        labels=labels,
        offsets=np.array([0, 4]),
        stragglers=np.zeros(1, bool),
        straggler_classes=np.zeros(0, np.int64),
        test_features=pixels,
        test_labels=labels,
        classes=classes,
        client_names=("0",),
        class_names=tuple(map(str, range(classes))),
    )


@pytest.mark.parametrize(("name", "classes"), [("emnist_cnn", 62), ("mnist_cnn", 10)])
def test_models_are_of_the_published_size(name: str, classes: int) -> None:
    model = plain_model(name, images(classes))
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]
    assert model(torch.zeros(3, 1, 28, 28)).shape == (3, classes)


@given(st.lists(st.integers(1, 1000), max_size=40), st.integers(1, 4))
def test_updates_are_dealt_once_and_evenly(steps: list[int], ranks: int) -> None:
    updates = [Participation(number, 0, 0, 0, 1, 0.0, steps=each, arrives=0.0) for number, each in enumerate(steps)]
    hands = dealt(updates, ranks)
    assert sorted(update.number for hand in hands for update in hand) == list(range(len(steps)))
    counts = [len(hand) for hand in hands]
    assert max(counts) - min(counts) <= 1
    # To and fro, what one rank has more than another is at most the longest update.
    work = [sum(update.steps for update in hand) for hand in hands]
    assert max(work) - min(work) <= max(steps, default=0)


@pytest.fixture
def logistic(tiny: Callable[..., Path], tmp_path: Path) -> tuple[Experiment, FederatedData]:
    def change(settings: dict[str, Any]) -> None:
        settings["task"]["model"] = {"name": "logistic"}
        # Whole clients as batches, so that the order of the examples does not matter.
        settings["client"] = {"batch_size": 40, "epochs": 2, "optimizer": {"name": "sgd", "rate": 0.1}}

    experiment = load_experiment(tiny(change))
    prepared = prepared_data(experiment, tmp_path)
    assert prepared is not None
    return experiment, open_prepared(prepared)


def test_its_steps_are_gradient_descent_on_the_clients_of_the_schedule(
    logistic: tuple[Experiment, FederatedData],
) -> None:
    experiment, data = logistic
    loops = [BareLoop(experiment, CELL, data, "cpu", rank, 2) for rank in range(2)]
    schedule = make_schedule(experiment.settings_of(CELL), data.population)
    expected = [update.number for server_update in schedule.server_updates() for update in server_update.updates]
    assert sorted(update.number for loop in loops for update in loop.updates) == sorted(expected)

    loop = loops[0]
    weight, bias = (parameter.detach().double().numpy().copy() for parameter in loop.model.parameters())
    for update in loop.updates:
        mine = slice(data.offsets[update.client], data.offsets[update.client + 1])
        x, y = data.features[mine].astype(float), np.eye(4)[data.labels[mine]]
        assert update.steps == 2
        for _ in range(update.steps):
            scores = np.exp(x @ weight.T + bias)
            error = (scores / scores.sum(axis=1, keepdims=True) - y) / len(x)
            weight, bias = weight - 0.1 * error.T @ x, bias - 0.1 * error.sum(axis=0)
    loop.train()
    for trained, by_hand in zip(loop.model.parameters(), (weight, bias), strict=True):
        np.testing.assert_allclose(trained.detach().numpy(), by_hand, rtol=1e-4, atol=1e-5)


def test_it_has_torch_as_torch_comes_and_leaves_it_as_it_was(logistic: tuple[Experiment, FederatedData]) -> None:
    loop = BareLoop(logistic[0], CELL, logistic[1], "cpu", 0, 2)
    seen = set()
    loop.model.register_forward_hook(
        lambda *_: seen.add((torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.is_grad_enabled()))
    )
    before = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(2)
    torch.set_deterministic_debug_mode("error")
    try:
        with torch.no_grad():
            loop.train()
        assert seen == {(1, 0, True)}
        assert (torch.get_num_threads(), torch.get_deterministic_debug_mode()) == (2, 2)
    finally:
        torch.set_num_threads(before[0])
        torch.set_deterministic_debug_mode(before[1])
