"""The server's rules by hand, on a model of two parameters."""

from typing import Any

import numpy as np
import pytest

from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.moving_average import MovingAverage, MovingAverageSettings
from fedhpc.federation.schedulers.asynchronous import AsynchronousSettings
from fedhpc.federation.schedulers.fare_dust import FareDustSettings
from fedhpc.federation.schedulers.feast import FeastSettings
from fedhpc.federation.schedulers.staleness import HingeStaleness, PolynomialStaleness
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.federation.server_model import ServerModel
from fedhpc.federation.updates import Participation, ServerUpdate, Totals
from fedhpc.optimizers import SGD, Adam

CLIENT = ClientSettings(batch_size=1, epochs=1, optimizer=SGD(name="sgd", rate=1.0), distillation=0.1)
START = np.array([1.0, -2.0], np.float32)


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def sgd(rate: float) -> SGD:
    return SGD(name="sgd", rate=rate)


def starting_from(version: int) -> Participation:
    return Participation(0, 0, 0, version, 1, 0.0, steps=1, arrives=1.0)


def update(version: int, starts: list[int], weights: list[float], **more: Any) -> ServerUpdate:
    return ServerUpdate(version, 0.0, [starting_from(start) for start in starts], weights, Totals(), [], **more)


def test_fedasync_moves_to_the_clients_model() -> None:
    settings = AsynchronousSettings(
        scheduler="asynchronous", mixing=0.5, concurrency=2, client=CLIENT, server_optimizer=sgd(1.0)
    )
    model = ServerModel(settings, START)
    versions = {0: model.apply(update(0, [], []), {}, {})}
    # A client from w0 = (1, -2) with delta (1, 1) holds (0, -3); half way from w0: (0.5, -2.5).
    first = update(1, [0], [0.5], moves_to_clients=True)
    versions[1] = model.apply(first, {None: 0.5 * vector(1, 1)}, versions)
    np.testing.assert_allclose(versions[1], [0.5, -2.5], rtol=1e-6)
    # Another one from w0 with delta (-1, 2) holds (2, -4); with a = 0.2: 0.8 (0.5, -2.5) + 0.2 (2, -4) = (0.8, -2.8).
    second = update(2, [0], [0.2], moves_to_clients=True)
    np.testing.assert_allclose(model.apply(second, {None: 0.2 * vector(-1, 2)}, versions), [0.8, -2.8], rtol=1e-6)


def test_the_staleness_functions_of_fedasync() -> None:
    assert PolynomialStaleness(kind="polynomial", exponent=0.5).weight(3) == 0.5
    hinge = HingeStaleness(kind="hinge", slope=10, free=4)
    assert [hinge.weight(staleness) for staleness in (0, 4, 5)] == [1, 1, 1 / 11]


def test_a_moving_average_by_hand() -> None:
    average = MovingAverage(MovingAverageSettings(decay=0.75), START)
    np.testing.assert_array_equal(average.model(), START)
    # 0.75 (1, -2) + 0.25 (5, 2) = (2, -1); 0.75 (2, -1) + 0.25 (-2, 3) = (1, 0).
    average.add(vector(5, 2))
    np.testing.assert_allclose(average.model(), [2, -1])
    average.add(vector(-2, 3))
    np.testing.assert_allclose(average.model(), [1, 0], atol=1e-7)


def test_bias_correction_leaves_the_initial_model_out() -> None:
    average = MovingAverage(MovingAverageSettings(decay=0.75, bias_correction=True), START)
    np.testing.assert_array_equal(average.model(), START)
    average.add(vector(5, 2))
    np.testing.assert_allclose(average.model(), [5, 2], rtol=1e-6)
    # (0.75 (5, 2) + (-2, 3)) / 1.75.
    average.add(vector(-2, 3))
    np.testing.assert_allclose(average.model(), [1.75 / 1.75, 4.5 / 1.75], rtol=1e-6)


def test_the_average_of_a_synchronous_algorithm_is_what_is_evaluated() -> None:
    settings = SynchronousSettings(
        scheduler="synchronous",
        cohort=1,
        client=CLIENT,
        server_optimizer=sgd(0.5),
        ema=MovingAverageSettings(decay=0.5),
    )
    model = ServerModel(settings, START)
    assert model.has_output_model
    model.apply(update(0, [], []), {}, {})
    np.testing.assert_array_equal(model.output(), START)
    # w1 = (1, -2) - 0.5 (4, -4) = (-1, 0); e1 = (w0 + w1) / 2 = (0, -1).
    np.testing.assert_allclose(model.apply(update(1, [0], [1.0]), {None: vector(4, -4)}, {}), [-1, 0])
    np.testing.assert_allclose(model.output(), [0, -1])


def feast(**settings: Any) -> ServerModel:
    made = {"decay": 0.5, "kappa": 0.5, "cohort": 2, "over_selection": 3, **settings}
    return ServerModel(FeastSettings(scheduler="feast", client=CLIENT, server_optimizer=sgd(0.5), **made), START)


ROUND_0 = update(1, [0, 0], [0.5, 0.5], keeps_delta=True)
"""Deltas (2, 0) and (4, 2): their mean is (3, 1)."""
ROUND_1 = update(2, [1, 1], [0.5, 0.5], keeps_delta=True, late=[starting_from(0)], closed=[0])
"""Deltas of mean (1, -1). A late one of round 0, (0, 4), makes that round's sum (6, 6) over 3 clients."""


def two_rounds(model: ServerModel, scale: float = 1.0) -> list[np.ndarray]:
    versions = {0: model.apply(update(0, [], []), {}, {})}
    versions[1] = model.apply(ROUND_0, {None: scale * vector(3, 1)}, versions)
    assert model.output().tolist() == START.tolist()
    versions[2] = model.apply(ROUND_1, {None: scale * vector(1, -1), 0: vector(0, 4)}, versions)
    return list(versions.values())


def test_feast_by_hand() -> None:
    model = feast()
    # w1 = (1, -2) - 0.5 (3, 1) = (-0.5, -2.5); w2 = w1 - 0.5 (1, -1) = (-1, -2).
    _, first, second = two_rounds(model)
    np.testing.assert_allclose(first, [-0.5, -2.5])
    np.testing.assert_allclose(second, [-1, -2])
    # b = 3, Delta+ / b = (2, 2): w1+ = (1, -2) - 0.5 (2, 2) = (0, -3);
    # a1 = 0.5 (a0 - 0.25 (2, 2)) + 0.5 w1+ = 0.5 (0.5, -2.5) + 0.5 (0, -3) = (0.25, -2.75).
    np.testing.assert_allclose(model.output(), [0.25, -2.75])


def test_feast_with_kappa_0_is_an_average_of_the_models_with_all_clients() -> None:
    # Section 2.3: eta_a = 0 gives a1 = beta a0 + (1 - beta) w1+ = 0.25 (1, -2) + 0.75 (0, -3).
    model = feast(kappa=0.0, decay=0.25)
    two_rounds(model)
    np.testing.assert_allclose(model.output(), [0.25, -2.75])


def test_feast_with_kappa_1_steps_from_the_average_of_both_models() -> None:
    # Section 2.3: eta_a = eta_g gives a1 = (beta a0 + (1 - beta) w0) - eta_g/b Delta+ = (1, -2) - (1, 1), any beta.
    for decay in (0.25, 0.9):
        model = feast(kappa=1.0, decay=decay)
        two_rounds(model)
        np.testing.assert_allclose(model.output(), [0, -3], rtol=1e-6)


def test_feast_with_sums_takes_the_rates_as_they_are() -> None:
    model = feast(normalization="sum")
    versions = {0: model.apply(update(0, [], []), {}, {})}
    # Sums: w1 = (1, -2) - 0.5 (6, 2) = (-2, -3).
    of_sum = update(1, [0, 0], [1.0, 1.0], keeps_delta=True)
    versions[1] = model.apply(of_sum, {None: vector(6, 2)}, versions)
    np.testing.assert_allclose(versions[1], [-2, -3])
    model.apply(
        update(2, [1, 1], [1.0, 1.0], keeps_delta=True, late=[starting_from(0)], closed=[0]),
        {None: vector(2, -2), 0: vector(0, 4)},
        versions,
    )
    # Delta+ = (6, 6): w1+ = (1, -2) - (3, 3) = (-2, -5); a1 = 0.5 ((1, -2) - (1.5, 1.5)) + 0.5 w1+ = (-1.25, -4.25).
    np.testing.assert_allclose(model.output(), [-1.25, -4.25])


def fare_dust(server_optimizer: SGD | Adam, **settings: Any) -> ServerModel:
    made = {"cohort": 2, "over_selection": 3, "histories": 5, **settings}
    return ServerModel(
        FareDustSettings(scheduler="fare_dust", client=CLIENT, server_optimizer=server_optimizer, **made), START
    )


def teachers_of(model: ServerModel) -> list[np.ndarray]:
    """Of round 0's delta: for clients of version 1, before the late one has come, and of version 2."""
    versions = {0: model.apply(update(0, [], []), {}, {})}
    first = update(1, [0, 0], [0.5, 0.5], keeps_delta=True, teachers={-3: 0})
    versions[1] = model.apply(first, {None: vector(3, 1)}, versions)
    second = update(2, [1, 1], [0.5, 0.5], keeps_delta=True, late=[starting_from(0)], teachers={-5: 0, -7: 1})
    versions[2] = model.apply(second, {None: vector(1, -1), 0: vector(0, 4)}, versions)
    # A teacher may be made long after its clients started: its delta is the one of then.
    third = update(3, [2, 2], [0.5, 0.5], keeps_delta=True, late=[starting_from(0)])
    model.apply(third, {None: vector(9, 9), 0: vector(70, 70)}, versions)
    ids = {-3: 1, -5: 2, -7: 2}
    return [versions[1], versions[2]] + [model.teacher(name, start, versions[start]) for name, start in ids.items()]


@pytest.mark.parametrize("settings", [{"teacher_rate": 0.5}, {"teacher_rate": "server"}])
def test_fare_dusts_teacher_with_sgd_by_hand(settings: dict[str, Any]) -> None:
    first, second, early, late, other = teachers_of(fare_dust(sgd(0.5), **settings))
    np.testing.assert_allclose(first, [-0.5, -2.5])
    np.testing.assert_allclose(second, [-1, -2])
    # Line 7 with b = 2: w1 - 0.5 (3, 1) = (-2, -3). With b = 3 and the sum (6, 6): w2 - 0.5 (2, 2) = (-2, -3).
    np.testing.assert_allclose(early, [-2, -3])
    np.testing.assert_allclose(late, [-2, -3])
    # Round 1's own: w2 - 0.5 (1, -1).
    np.testing.assert_allclose(other, [-1.5, -1.5])


def test_a_teachers_rate_may_differ_from_the_servers() -> None:
    *_, early, late, _ = teachers_of(fare_dust(sgd(0.5), teacher_rate=0.1))
    np.testing.assert_allclose(early, [-0.8, -2.6], rtol=1e-6)
    np.testing.assert_allclose(late, [-1.2, -2.2], rtol=1e-6)


def test_a_teacher_by_the_servers_adam_takes_its_next_step_and_leaves_it_as_it_is() -> None:
    adam = Adam(name="adam", rate=0.1, betas=(0.5, 0.5), epsilon=1e-12)
    first, second, early, late, _ = teachers_of(fare_dust(adam))
    # Adam's first step is rate * sign: w1 = (0.9, -2.1).
    np.testing.assert_allclose(first, [0.9, -2.1], rtol=1e-5)
    # The teacher's step along the same (3, 1) once more: moments as after two equal gradients, so again rate * sign.
    np.testing.assert_allclose(early, [0.8, -2.2], rtol=1e-5)
    # The real second step is along (1, -1): m = (0.5 * 1.5 + 0.5) / 0.75, v = (0.5 * 4.5 + 0.5) / 0.75 for the first
    # parameter: 1.6666 / sqrt(3.6666) = 0.87039; for the second m = (0.25 - 0.5) / 0.75, v = (0.25 + 0.5) / 0.75.
    np.testing.assert_allclose(second, [0.9 - 0.1 * 0.870388, -2.1 + 0.1 / 3], rtol=1e-5)
    # From there along (2, 2), t = 3: m = 0.5 * 1.25 + 1, v = 0.5 * 2.75 + 2, both over 0.875; and the other.
    steps = [(1.625 / 0.875) / np.sqrt(3.375 / 0.875), (0.875 / 0.875) / np.sqrt(2.375 / 0.875)]
    np.testing.assert_allclose(late, second - 0.1 * np.array(steps), rtol=1e-5)
