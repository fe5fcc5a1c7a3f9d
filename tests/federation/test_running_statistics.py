"""The server's rule for running statistics: s <- (1 - A) s + sum_i a_i s_i.

By hand on two parameters and two statistics, a mean and a variance: (m, v) = (2, 4) at first. Client 1 ends at (1, 10)
and client 2 at (5, 0).
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.work import Part
from fedhpc.federation.moving_average import MovingAverageSettings
from fedhpc.federation.running_statistics import moved_to_clients
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.schedulers.asynchronous import AsynchronousSettings
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.federation.server_model import ServerModel
from fedhpc.federation.updates import Participation, ServerUpdate, Totals
from fedhpc.models.architectures import build_model
from fedhpc.optimizers import SGD
from tests.clients.steps.plain_reference import BATCHES, batch_rows, stream
from tests.federations import Federation, relays_weights
from tests.pictures import ALGORITHMS, PLAIN, picture_experiment

CLIENT = ClientSettings(batch_size=1, epochs=1, optimizer=SGD(name="sgd", rate=1.0))
START = np.array([1.0, -2.0, 2.0, 4.0], np.float32)
ENDS = np.array([[1.0, 10.0], [5.0, 0.0]])


def started(version: int, steps: int = 1) -> Participation:
    return Participation(0, 0, 0, version, 1, 0.0, steps=steps, arrives=1.0)


def update(version: int, weights: list[float], starts: list[int] | None = None, **more: Any) -> ServerUpdate:
    updates = [started(start) for start in starts or [version - 1] * len(weights)]
    return ServerUpdate(version, 0.0, updates, weights, Totals(), [], **more)


def total(delta: tuple[float, float], weights: list[float], ends: np.ndarray = ENDS) -> dict[Part, np.ndarray]:
    """What the ranks send: the parameters' weighted delta, and of the statistics the weighted sum of their ends."""
    return {None: np.array([*delta, *np.array(weights) @ ends[: len(weights)]], np.float32)}


def rounds(**more: Any) -> ServerModel:
    made = {"server_optimizer": SGD(name="sgd", rate=1.0), **more}
    settings = SynchronousSettings(scheduler="synchronous", cohort=2, client=CLIENT, **made)
    model = ServerModel(settings, START, statistics=2)
    np.testing.assert_array_equal(model.apply(update(0, []), {}, {}), START)
    return model


def after(weights: list[float], **more: Any) -> np.ndarray:
    return rounds(**more).apply(update(1, weights), total((0.5, 1.0), weights), {})


def test_weights_that_sum_to_one_give_the_clients_mean() -> None:
    # 0.25 (1, 10) + 0.75 (5, 0).
    np.testing.assert_allclose(after([0.25, 0.75]), [0.5, -3, 4, 2.5], rtol=1e-6)


def test_weights_that_sum_to_less_leave_the_rest_to_the_servers_own() -> None:
    # 0.7 (2, 4) + 0.1 (1, 10) + 0.2 (5, 0).
    np.testing.assert_allclose(after([0.1, 0.2])[2:], [2.5, 3.8], rtol=1e-6)


def test_weights_that_sum_to_more_are_divided_by_their_sum() -> None:
    # (1, 10) / 3 + 2 (5, 0) / 3.
    np.testing.assert_allclose(after([1.0, 2.0])[2:], [11 / 3, 10 / 3], rtol=1e-6)


@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "sgd", "rate": 0.1},
        {"name": "sgd", "rate": 1.0, "momentum": 0.9, "weight_decay": 0.5},
        {"name": "adam", "rate": 0.3},
    ],
)
def test_the_server_optimizer_is_not_theirs(optimizer: dict[str, Any]) -> None:
    model = rounds(server_optimizer=optimizer)
    # Twice the same: (4, 2.5), whatever a momentum carries along; then half of (1, 10) beside half of that.
    for version in (1, 2):
        moved = model.apply(update(version, [0.25, 0.75]), total((0.5, 1.0), [0.25, 0.75]), {})
        np.testing.assert_allclose(moved[2:], [4, 2.5], rtol=1e-6)
    np.testing.assert_allclose(model.apply(update(3, [0.5]), total((0, 0), [0.5]), {})[2:], [2.5, 6.25], rtol=1e-6)


def test_momentum_is_the_parameters_own() -> None:
    model = rounds(server_optimizer=SGD(name="sgd", rate=1.0, momentum=0.5))
    for version in (1, 2):
        moved = model.apply(update(version, [0.25, 0.75]), total((0.5, 1.0), [0.25, 0.75]), {})
    # Velocities (0.5, 1) and (0.75, 1.5) from (1, -2).
    np.testing.assert_allclose(moved[:2], [-0.25, -4.5], rtol=1e-6)


def test_fedasync_mixes_them_by_its_own_weight() -> None:
    settings = AsynchronousSettings(
        scheduler="asynchronous",
        mixing=0.5,
        concurrency=2,
        client=CLIENT,
        server_optimizer=SGD(name="sgd", rate=1.0),
    )
    model = ServerModel(settings, START, statistics=2)
    versions = {0: model.apply(update(0, []), {}, {})}
    # The parameters half way from (1, -2) to the client's (0, -3), the statistics from (2, 4) to (1, 10).
    first = update(1, [0.5], [0], moves_to_clients=True)
    versions[1] = model.apply(first, total((0.5, 0.5), [0.5]), versions)
    np.testing.assert_allclose(versions[1], [0.5, -2.5, 1.5, 7], rtol=1e-6)
    # A stale one, from version 0 to (2, -4): 0.8 (0.5, -2.5) + 0.2 (2, -4), and 0.8 (1.5, 7) + 0.2 (5, 0).
    second = update(2, [0.2], [0], moves_to_clients=True)
    moved = model.apply(second, total((-0.2, 0.4), [0.2], ENDS[1:]), versions)
    np.testing.assert_allclose(moved, [0.8, -2.8, 2.2, 5.6], rtol=1e-6)


def test_who_has_no_example_has_no_statistics() -> None:
    # Three of weight 1/3, the last of whom trains nothing: 1/3 (2, 4) + 1/3 (1, 10) + 1/3 (5, 0).
    third = 1 / 3
    round_of_three = update(1, [third] * 3)
    round_of_three.updates[2] = started(0, steps=0)
    moved = rounds().apply(round_of_three, total((0, 0), [third, third]), {})
    np.testing.assert_allclose(moved[2:], [8 / 3, 14 / 3], rtol=1e-6)
    np.testing.assert_array_equal(rounds().apply(update(1, [1.0]), {}, {}), START)


def test_a_moving_average_takes_them_in() -> None:
    model = rounds(ema=MovingAverageSettings(decay=0.5))
    model.apply(update(1, [0.25, 0.75]), total((0.5, 1.0), [0.25, 0.75]), {})
    # Half of (2, 4) and half of (4, 2.5).
    np.testing.assert_allclose(model.output()[2:], [3, 3.25], rtol=1e-6)


def test_they_are_part_of_the_state() -> None:
    model = rounds()
    model.apply(update(1, [0.1, 0.2]), total((0.5, 1.0), [0.1, 0.2]), {})
    other = rounds()
    other.restore(model.state())
    assert other.output().tobytes() == model.output().tobytes()
    following = update(2, [0.5]), total((1, 1), [0.5]), {}
    assert other.apply(*following).tobytes() == model.apply(*following).tobytes()


@given(
    own=st.floats(0, 2.0**100, width=32),
    clients=st.lists(st.tuples(st.floats(0, 3), st.floats(0, 2.0**100, width=32)), min_size=1, max_size=8),
)
def test_they_stay_between_those_that_they_are_made_of(own: float, clients: list[tuple[float, float]]) -> None:
    ends = np.zeros(1, np.float32)
    for weight, end in clients:
        ends = ends + np.float32(weight) * np.array([end], np.float32)
    moved = moved_to_clients(np.array([own], np.float32), ends, sum(weight for weight, _ in clients))[0]
    among = [own, *(end for _, end in clients)]
    assert moved >= 0
    assert min(among) * (1 - 1e-5) - 1e-37 <= moved <= max(among) * (1 + 1e-5) + 1e-37


class Plainly:
    """The federation once more with nothing of fedhpc's steps and server: torch's own SGD, and models in float64, as
    pairs of parameters and statistics, all kept."""

    def __init__(self, federation: Federation) -> None:
        settings = federation.settings
        self.data, self.client, self.seed = federation.data, settings.algorithm.client, settings.seed
        self.trial = settings.trial
        self.module = build_model(settings.task.model, self.data.shape, self.data.classes)
        norms = [layer for layer in self.module.modules() if isinstance(layer, nn.BatchNorm2d)]
        self.statistics = [place for layer in norms for place in (layer.running_mean, layer.running_var)]

    def put(self, model: tuple[np.ndarray, np.ndarray]) -> None:
        for tensors, values in zip((list(self.module.parameters()), self.statistics), model, strict=True):
            pieces = torch.from_numpy(values).float().split([tensor.numel() for tensor in tensors])
            for tensor, piece in zip(tensors, pieces, strict=True):
                tensor.data.copy_(piece.view_as(tensor))

    def end(self, one: Participation, start: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        self.put(start)
        before = [parameter.detach().clone() for parameter in self.module.parameters()]
        rule = self.client.optimizer
        optimizer = torch.optim.SGD(
            self.module.parameters(), rule.rate, momentum=rule.momentum, weight_decay=rule.weight_decay
        )
        first, last = self.data.offsets[one.client], self.data.offsets[one.client + 1]
        order = stream(self.seed, self.trial, BATCHES, one.client, one.participation)
        rows = batch_rows(order, last - first, self.client.batch_size)
        for _ in range(one.steps):
            batch = first + next(rows)
            optimizer.zero_grad()
            scores = self.module(torch.from_numpy(self.data.features[batch]))
            loss = cross_entropy(scores, torch.from_numpy(self.data.labels[batch]))
            for parameter, was in zip(self.module.parameters(), before, strict=True):
                loss = loss + self.client.proximal / 2 * (parameter - was).square().sum()
            loss.backward()
            optimizer.step()
        tensors = (list(self.module.parameters()), self.statistics)
        parameters, statistics = (torch.cat([each.detach().flatten() for each in group]) for group in tensors)
        return parameters.double().numpy(), statistics.double().numpy()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_whole_federation_is_what_plain_torch_makes_of_it(tmp_path: Path, algorithm: str) -> None:
    federation = Federation.of(picture_experiment(tmp_path), algorithm)
    federation.choice = PLAIN
    engine = federation.engine()
    initial = federation.training().initial_weights()
    engine.run()
    count = federation.training().statistics
    plain, rule = Plainly(federation), federation.settings.algorithm.server_optimizer
    versions = [(initial[:-count].astype(float), initial[-count:].astype(float))]
    average, velocity, sums, together = versions[0], np.zeros(len(initial) - count), [], 0
    with torch.enable_grad():
        for made in make_schedule(federation.settings, federation.data.population).server_updates():
            if not made.version:
                continue
            weights, (now, own) = made.weights, versions[-1]
            ends = [plain.end(one, versions[one.version]) for one in made.updates]
            if made.boost is not None:
                ages = [one.staleness for one in made.updates]
                pairs = zip(made.updates, ends, strict=True)
                weights = relays_weights(ages, [versions[one.version][0] - end for one, (end, _) in pairs], made.boost)
                together += len(set(ages)) > 1
            sums.append(sum(weights))
            gradient = np.zeros_like(now)
            for one, weight, (parameters, _) in zip(made.updates, weights, ends, strict=True):
                gradient += weight * ((now if made.moves_to_clients else versions[one.version][0]) - parameters)
            velocity = rule.momentum * velocity + gradient
            divisor = max(1.0, sum(weights))
            mean = sum(weight / divisor * statistics for weight, (_, statistics) in zip(weights, ends, strict=True))
            statistics = max(0.0, 1 - sum(weights)) * own + mean
            versions.append((now - rule.rate * velocity, statistics))
            average = tuple(0.5 * (old + new) for old, new in zip(average, versions[-1], strict=True))
    parameters, statistics = average if algorithm == "fedbuff_sum" else versions[-1]
    if algorithm == "fedbuff_sum":
        assert max(sums) > 1.2
    if algorithm == "fedasync":
        assert min(sums) < 0.6
    assert bool(together) == (algorithm == "relay")  # fresh and stale ones
    ours = engine.output()
    moved = np.linalg.norm(parameters - initial[:-count])
    assert np.linalg.norm(ours[:-count] - parameters) < 1e-2 * moved
    np.testing.assert_allclose(ours[-count:], statistics, rtol=2e-2, atol=2e-3)
    assert np.linalg.norm(ours[-count:] - statistics) < 1e-3 * np.linalg.norm(statistics - initial[-count:])
