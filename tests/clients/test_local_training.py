"""Client updates by hand: logistic regression with one feature and two classes.

Weights start at zero: [W0, W1, b0, b1]. The one example has x = 1 and label 0. With logits z0 = -z1 = z the gradient is
g = p0 - 1 for W0 and b0 and -g for W1 and b1, where p0 = sigmoid(2 z) and z = W0 + b0. At zero p0 = 1/2, g = -1/2.
"""

import math
from typing import Any

import numpy as np
import pytest

from fedhpc.clients.local_training import EVALUATION_SHARD, LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.data.federated import FederatedData
from fedhpc.models.settings import MLP, Logistic
from fedhpc.optimizers import SGD, Adam, Optimizer
from tests.federations import DENSE, alone

SIGNS = np.array([1, -1, 1, -1])


def data(examples: list[list[tuple[float, int]]], test: list[tuple[float, int]]) -> FederatedData:
    """A client a list of (x, label)."""
    rows = [row for client in examples for row in client]
    return FederatedData(
        features=np.array([[x] for x, _ in rows], np.float32),
        labels=np.array([label for _, label in rows], np.int64),
        offsets=np.cumsum([0, *map(len, examples)]),
        stragglers=np.zeros(len(examples), bool),
        straggler_classes=np.array([1]),
        test_features=np.array([[x] for x, _ in test], np.float32),
        test_labels=np.array([label for _, label in test], np.int64),
        classes=2,
        client_names=tuple(map(str, range(len(examples)))),
        class_names=("0", "1"),
    )


ONE_EXAMPLE = data([[(1.0, 0)]], [(1.0, 0), (2.0, 1), (-1.0, 1)])


def delta(steps: int, optimizer: Optimizer | None = None, **settings: Any) -> np.ndarray:
    client = ClientSettings(batch_size=1, steps=steps, optimizer=optimizer or SGD(name="sgd", rate=0.1), **settings)
    training = LocalTraining(Logistic(name="logistic"), client, ONE_EXAMPLE, 0, 0, DENSE)
    return alone(training, np.zeros(4, np.float32), 0, 0, steps)


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_one_step_is_start_minus_end() -> None:
    # w = -rate * g, so that start - end = 0.1 * -0.5.
    assert delta(1) == pytest.approx(-0.05 * SIGNS)


def test_two_steps() -> None:
    # After the first step W0 = b0 = 0.05, z = 0.1.
    second = sigmoid(0.2) - 1
    assert delta(2) == pytest.approx(0.1 * (-0.5 + second) * SIGNS, rel=1e-5)


def test_the_proximal_term_pulls_back() -> None:
    # The second gradient gains mu (w - w_start) = 2 * 0.05 (Li et al. 2020).
    second = sigmoid(0.2) - 1 + 2 * 0.05
    assert delta(2, proximal=2.0) == pytest.approx(0.1 * (-0.5 + second) * SIGNS, rel=1e-5)


def test_momentum_and_its_fresh_state() -> None:
    # v1 = -0.5, v2 = 0.9 v1 + g2.
    second = 0.9 * -0.5 + sigmoid(0.2) - 1
    expected = 0.1 * (-0.5 + second) * SIGNS
    momentum = SGD(name="sgd", rate=0.1, momentum=0.9)
    client = ClientSettings(batch_size=1, steps=2, optimizer=momentum)
    training = LocalTraining(Logistic(name="logistic"), client, ONE_EXAMPLE, 0, 0, DENSE)
    for _ in range(2):
        update = alone(training, np.zeros(4, np.float32), 0, 0, 2)
        assert update == pytest.approx(expected, rel=1e-5)


def test_weight_decay_pulls_to_zero() -> None:
    # From w = [1, 1, 1, 1] the logits are equal: g = -1/2 again, plus 0.5 * w.
    client = ClientSettings(batch_size=1, steps=1, optimizer=SGD(name="sgd", rate=0.1, weight_decay=0.5))
    training = LocalTraining(Logistic(name="logistic"), client, ONE_EXAMPLE, 0, 0, DENSE)
    update = alone(training, np.ones(4, np.float32), 0, 0, 1)
    assert update == pytest.approx(0.1 * (-0.5 * SIGNS + 0.5), rel=1e-5)


def test_adams_first_step_is_the_rate() -> None:
    assert delta(1, Adam(name="adam", rate=0.01)) == pytest.approx(-0.01 * SIGNS, rel=1e-5)


def test_fewer_examples_than_a_batch_and_none_at_all() -> None:
    client = ClientSettings(batch_size=20, epochs=3, optimizer=SGD(name="sgd", rate=0.1))
    assert [client.local_steps(examples) for examples in (0, 1, 20, 21)] == [0, 3, 3, 6]
    few = data([[(1.0, 0), (1.0, 0)], []], [(0.0, 0)])
    training = LocalTraining(Logistic(name="logistic"), client, few, 0, 0, DENSE)
    # The mean gradient of two equal examples is that of one.
    assert alone(training, np.zeros(4, np.float32), 0, 0, 1) == pytest.approx(-0.05 * SIGNS)
    assert alone(training, np.ones(4, np.float32), 1, 0, 0).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("examples", "processed"), [(0, 0), (3, 15), (4, 20), (7, 18), (100, 20)])
def test_examples_processed_in_a_number_of_steps(examples: int, processed: int) -> None:
    # Five batches of at most four: 3 * 5, 4 * 5, then 4 + 3 + 4 + 3 + 4, and 4 * 5.
    client = ClientSettings(batch_size=4, steps=5, optimizer=SGD(name="sgd", rate=0.1))
    assert client.examples_processed(examples, client.local_steps(examples)) == processed


def test_every_pass_takes_every_example_once() -> None:
    # Batches of one; the bias-free reading of the order: with rate so small that the weights stay, an epoch's delta is
    # the sum of all examples' gradients, whatever their order.
    rows = [(float(x), x % 2) for x in range(1, 8)]
    client = ClientSettings(batch_size=3, epochs=1, optimizer=SGD(name="sgd", rate=1e-6))
    training = LocalTraining(Logistic(name="logistic"), client, data([rows], [(0.0, 0)]), 0, 0, DENSE)
    deltas = [alone(training, np.zeros(4, np.float32), 0, take, 3) for take in range(2)]
    # By hand: batches of 3, 3 and 1; their means depend on the order, so two participations differ ...
    assert not np.array_equal(deltas[0], deltas[1])
    # ... while with one full batch they agree: sum over examples of +-x / 2, divided by 7.
    whole = ClientSettings(batch_size=7, epochs=1, optimizer=SGD(name="sgd", rate=1.0))
    training = LocalTraining(Logistic(name="logistic"), whole, data([rows], [(0.0, 0)]), 0, 0, DENSE)
    weight = sum((-0.5 if label == 0 else 0.5) * x for x, label in rows) / 7
    bias = sum(-0.5 if label == 0 else 0.5 for _, label in rows) / 7
    for take in range(2):
        update = alone(training, np.zeros(4, np.float32), 0, take, 1)
        assert update == pytest.approx([weight, -weight, bias, -bias], rel=1e-5)


def test_evaluation_counts_by_hand() -> None:
    # W0 = 1: class 0 wins where x > 0. (1, 0) is right, (2, 1) is wrong, (-1, 1) is right and of straggler class 1.
    client = ClientSettings(batch_size=1, epochs=1, optimizer=SGD(name="sgd", rate=0.1))
    training = LocalTraining(Logistic(name="logistic"), client, ONE_EXAMPLE, 0, 0, DENSE)
    counts = training.evaluate(np.array([1, 0, 0, 0], np.float32), 0)
    assert (counts.correct, counts.straggler_correct) == (2, 1)
    expected = math.log(1 + math.exp(-1)) + math.log(1 + math.exp(2)) + math.log(1 + math.exp(-1))
    assert counts.loss == pytest.approx(expected, rel=1e-6)


def test_shards_cover_the_held_out_examples() -> None:
    many = data([[(1.0, 0)]], [(1.0, 0)] * (EVALUATION_SHARD + 1))
    client = ClientSettings(batch_size=1, epochs=1, optimizer=SGD(name="sgd", rate=0.1))
    training = LocalTraining(Logistic(name="logistic"), client, many, 0, 0, DENSE)
    assert training.shards == 2
    weights = np.array([1, 0, 0, 0], np.float32)
    assert [training.evaluate(weights, shard).correct for shard in range(2)] == [EVALUATION_SHARD, 1]


def test_the_initial_model_is_the_trials() -> None:
    client = ClientSettings(batch_size=1, epochs=1, optimizer=SGD(name="sgd", rate=0.1))

    def initial(seed: int, trial: int) -> bytes:
        model = MLP(name="mlp", hidden=[3])
        return LocalTraining(model, client, ONE_EXAMPLE, seed, trial, DENSE).initial_weights().tobytes()

    assert initial(0, 0) == initial(0, 0)
    assert len({initial(0, 0), initial(0, 1), initial(1, 0)}) == 3
