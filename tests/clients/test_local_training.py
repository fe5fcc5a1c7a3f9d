"""Client updates by hand: logistic regression with one feature and two classes.

Weights start at zero: [W0, W1, b0, b1]. The one example has x = 1 and label 0. With logits z0 = -z1 = z the gradient is
g = p0 - 1 for W0 and b0 and -g for W1 and b1, where p0 = sigmoid(2 z) and z = W0 + b0. At zero p0 = 1/2, g = -1/2.
"""

import math
from typing import Any

import numpy as np
import pytest

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.objective import EVALUATION_SHARD
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.work import Member, teacher_id
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


def taught(steps: int, weight: float = 1.0) -> np.ndarray:
    """With rho = 1/2 and a teacher whose logits for x = 1 are ln 2 and -ln 2: its q0 is 4 / (4 + 1) = 0.8."""
    client = ClientSettings(batch_size=1, steps=steps, optimizer=SGD(name="sgd", rate=0.1), distillation=0.5)
    training = LocalTraining(Logistic(name="logistic"), client, ONE_EXAMPLE, 0, 0, DENSE)
    teacher = np.array([0, 0, math.log(2), -math.log(2)], np.float32)
    member = Member(0, 0, 0, steps, weight, teacher_id(0))
    return training.update({0: np.zeros(4, np.float32), teacher_id(0): teacher}, [member], lambda: None)


def test_a_teacher_is_a_second_target() -> None:
    # The loss -ln p0 - rho (q0 ln p0 + q1 ln p1) has the gradient (1 + rho) p0 - 1 - rho q0 for W0 and b0, since
    # d ln p0 / d z0 = 1 - p0 and d ln p1 / d z0 = -p0: at zero 1.5 / 2 - 1 - 0.4 = -0.65.
    assert taught(1) == pytest.approx(-0.065 * SIGNS, rel=1e-5)
    # Then W0 = b0 = 0.065 and z = 0.13.
    second = 1.5 * sigmoid(0.26) - 1.4
    assert taught(2) == pytest.approx(0.1 * (-0.65 + second) * SIGNS, rel=1e-5)


def test_a_student_stays_where_label_and_teacher_pull_equally() -> None:
    # p0 = (1 + rho q0) / (1 + rho) is the least loss: with rho = 1 and q0 = 1/2 it is 3/4, where 2 z = ln 3.
    client = ClientSettings(batch_size=1, steps=1, optimizer=SGD(name="sgd", rate=0.1), distillation=1.0)
    training = LocalTraining(Logistic(name="logistic"), client, ONE_EXAMPLE, 0, 0, DENSE)
    start = np.array([0, 0, math.log(3) / 2, -math.log(3) / 2], np.float32)
    versions = {0: np.zeros(4, np.float32), 1: start}
    update = training.update(versions, [Member(1, 0, 0, 1, 1.0, 0)], lambda: None)
    assert update == pytest.approx(np.zeros(4), abs=1e-7)


def test_an_update_is_clipped_before_it_is_weighted() -> None:
    # Four entries of 0.05: a length of 0.1.
    client = ClientSettings(batch_size=1, steps=1, optimizer=SGD(name="sgd", rate=0.1), clip=0.06)
    training = LocalTraining(Logistic(name="logistic"), client, ONE_EXAMPLE, 0, 0, DENSE)
    zeros = {0: np.zeros(4, np.float32)}
    assert training.update(zeros, [Member(0, 0, 0, 1, 3.0)], lambda: None) == pytest.approx(3 * -0.03 * SIGNS, rel=1e-5)
    assert delta(1, clip=0.11) == pytest.approx(-0.05 * SIGNS, rel=1e-5)


def test_an_update_of_length_zero_stays() -> None:
    # Two equal classes' examples: at zero the gradients of labels 0 and 1 cancel.
    client = ClientSettings(batch_size=2, steps=1, optimizer=SGD(name="sgd", rate=0.1), clip=0.06)
    training = LocalTraining(Logistic(name="logistic"), client, data([[(1.0, 0), (1.0, 1)]], [(0.0, 0)]), 0, 0, DENSE)
    assert alone(training, np.zeros(4, np.float32), 0, 0, 1).tolist() == [0, 0, 0, 0]


def test_a_short_batch_takes_its_part_of_the_rate() -> None:
    # One example of the four that are asked for: a rate of 0.1 / 4, for the proximal term too. The batch that is asked
    # for counts, not the largest client's.
    client = ClientSettings(
        batch_size=4, steps=2, optimizer=SGD(name="sgd", rate=0.1), proximal=2.0, rate_normalization=True
    )
    training = LocalTraining(Logistic(name="logistic"), client, ONE_EXAMPLE, 0, 0, DENSE)
    # g1 = -1/2, so W0 = b0 = 0.0125 and z = 0.025.
    second = sigmoid(0.05) - 1 + 2 * 0.0125
    update = alone(training, np.zeros(4, np.float32), 0, 0, 2)
    assert update == pytest.approx(0.025 * (-0.5 + second) * SIGNS, rel=1e-5)


def test_a_full_batch_takes_the_whole_rate() -> None:
    # Three equal examples in batches of two: rates of 0.1 and 0.05. After the first step z = 0.1.
    client = ClientSettings(batch_size=2, epochs=1, optimizer=SGD(name="sgd", rate=0.1), rate_normalization=True)
    training = LocalTraining(Logistic(name="logistic"), client, data([[(1.0, 0)] * 3], [(0.0, 0)]), 0, 0, DENSE)
    update = alone(training, np.zeros(4, np.float32), 0, 0, 2)
    assert update == pytest.approx((0.1 * -0.5 + 0.05 * (sigmoid(0.2) - 1)) * SIGNS, rel=1e-5)


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


def squared_loss(label: int, x: float, w: float, b: float) -> float:
    """Of an example by the weights [w, -w, b, -b], in squared nats."""
    margin = 2 * (w * x + b) * (1 if label == 0 else -1)
    return math.log(1 + math.exp(-margin)) ** 2


FEW_AND_MANY = data([[(1.0, 0)], [], [(0.01 * x, x % 2) for x in range(75)]], [(0.0, 0)])
"""More examples than a CPU passes forward at once."""


def measuring(**settings: Any) -> LocalTraining:
    client = ClientSettings(batch_size=5, epochs=2, optimizer=SGD(name="sgd", rate=0.1), **settings)
    choice = DENSE.model_copy(update={"clients": 3})
    return LocalTraining(Logistic(name="logistic"), client, FEW_AND_MANY, 0, 0, choice, measures_losses=True)


def test_losses_are_of_the_downloaded_model_in_the_members_order() -> None:
    training = measuring()
    # [W0, W1, b0, b1].
    versions = {0: np.array([2, -2, 0.5, -0.5], np.float32), 1: np.zeros(4, np.float32)}
    # The longest trains first, and a client twice; each is told by itself.
    members = [Member(0, 0, 0, 2, 0.5), Member(0, 2, 0, 30, 0.5), Member(1, 2, 1, 4, 0.0), Member(1, 0, 1, 1, 0.0)]
    of_many = np.mean([squared_loss(x % 2, 0.01 * x, 2, 0.5) for x in range(75)])
    ln_2 = math.log(2) ** 2
    expected = [squared_loss(0, 1, 2, 0.5), of_many, ln_2, ln_2]
    for stack in (members[:2], members[2:]):
        training.update(versions, stack, lambda: None)
        assert training.losses == pytest.approx(expected[:2], rel=1e-5)
        expected = expected[2:]
    alone_again = measuring()
    in_a_stack = training.losses
    for member, loss in zip(members[2:], in_a_stack, strict=True):
        alone_again.update(versions, [member], lambda: None)
        assert alone_again.losses == [loss]


def test_measuring_losses_changes_no_update_and_costs_nothing_unasked() -> None:
    members = [Member(0, 0, 0, 2, 0.5), Member(0, 2, 0, 30, 0.5)]
    versions = {0: np.array([2, -2, 0.5, -0.5], np.float32)}
    asked = measuring(proximal=0.5)
    client = asked._client
    choice = DENSE.model_copy(update={"clients": 3})
    unasked = LocalTraining(Logistic(name="logistic"), client, FEW_AND_MANY, 0, 0, choice)
    updates = [training.update(versions, members, lambda: None).tobytes() for training in (asked, unasked)]
    assert updates[0] == updates[1]
    assert unasked.losses == []
