"""RELAY's equation 2 by hand (Abdelmoniem et al. 2021, section 4.2.4), on models of two parameters."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.work import Alone
from fedhpc.federation.moving_average import MovingAverageSettings
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.federation.server_model import ServerModel
from fedhpc.federation.staleness_boost import weights_of_stale
from fedhpc.federation.updates import Participation, ServerUpdate, Totals
from fedhpc.optimizers import SGD
from tests.federations import relays_weights

BETA = 0.35
START = np.array([10.0, 20.0], np.float32)
HALF = 1 - math.exp(-1 / 4)
WHOLE = 1 - math.exp(-1)

FRESH = [(2.0, 0.0), (4.0, 2.0)]
"""Their mean is (3, 1), of squared length 10."""
STALE = [(3.0, 4.0), (-3.0, 1.0)]
"""They differ from that mean by (0, -3) and (6, 0). Divided by n_F + 1 = 3 these are (0, -1) and (2, 0), so that Lambda
is 1 / 10 and 4 / 10, and Lambda over Lambda_max 1 / 4 and 1."""


def damped(*staleness: int) -> list[float]:
    return [(1 - BETA) / (tau + 1) for tau in staleness]


def vectors(*rows: tuple[float, ...]) -> list[np.ndarray]:
    return [np.array(row, np.float32) for row in rows]


def weights(fresh: list[tuple[float, ...]], stale: list[tuple[float, ...]], *staleness: int) -> list[float]:
    total = np.sum(vectors(*fresh), axis=0) if fresh else np.zeros(2, np.float32)
    return weights_of_stale(staleness, vectors(*stale), len(fresh), total, BETA)


def test_the_boost_grows_with_the_distance_from_the_fresh_mean() -> None:
    # 0.65 / 2 + 0.35 (1 - e^(-1/4)) = 0.325 + 0.35 x 0.2211992 and 0.65 / 4 + 0.35 (1 - e^(-1)) = 0.1625 + 0.35 x
    # 0.6321206.
    assert weights(FRESH, STALE, 1, 3) == pytest.approx([0.4024197, 0.3837422], abs=1e-7)


def test_of_two_that_differ_alike_the_older_weighs_less() -> None:
    first, second = weights(FRESH, [(3.0, 4.0), (3.0, -2.0)], 1, 2)
    assert first == pytest.approx(0.65 / 2 + BETA * WHOLE)
    assert second == pytest.approx(0.65 / 3 + BETA * WHOLE)


def test_one_stale_update_has_the_whole_boost_whatever_it_is() -> None:
    for only in ((3.0, 4.0), (100.0, -7.0), (0.0, 0.0)):
        assert weights(FRESH, [only], 4) == pytest.approx([0.65 / 5 + BETA * WHOLE])


def test_without_a_fresh_update_the_damping_is_all() -> None:
    # As in DynSGD; divided by their sum they are as (1 - beta) / (tau + 1) are.
    found = weights([], STALE, 1, 3)
    assert found == [1 / 2, 1 / 4]
    assert np.array(found) / sum(found) == pytest.approx(np.array(damped(1, 3)) / sum(damped(1, 3)))


def test_a_fresh_mean_of_zero_boosts_nothing() -> None:
    assert weights([(1.0, -2.0), (-1.0, 2.0)], STALE, 1, 3) == damped(1, 3)


def test_stale_updates_that_are_the_fresh_mean_are_not_boosted() -> None:
    # Lambda_max is 0.
    assert weights(FRESH, [(3.0, 1.0), (3.0, 1.0)], 1, 3) == damped(1, 3)
    # Beside another it has no boost, and the other has all of it.
    assert weights(FRESH, [(3.0, 1.0), (3.0, 2.0)], 1, 3) == pytest.approx([0.325, 0.1625 + BETA * WHOLE])


def test_without_stale_updates_there_is_nothing_to_weigh() -> None:
    assert weights(FRESH, []) == []


ENTRIES = st.integers(-1000, 1000).map(float)
ROWS = st.tuples(ENTRIES, ENTRIES, ENTRIES)


@given(
    st.sampled_from([0, 1, 2, 4]).flatmap(lambda n: st.lists(ROWS, min_size=n, max_size=n)),  # with exact means
    st.lists(st.tuples(ROWS, st.integers(1, 30)), min_size=1, max_size=5),
    st.floats(0, 1),
    st.sampled_from([2.0**-20, 1.0, 2.0**20]),
)
def test_the_weights_are_the_equations(
    fresh: list[tuple[float, ...]], stale: list[tuple[tuple[float, ...], int]], beta: float, scale: float
) -> None:
    rows = np.array(fresh).reshape(-1, 3)
    updates, staleness = [np.array(row) for row, _ in stale], [tau for _, tau in stale]
    found = weights_of_stale(
        staleness, [scale * update for update in updates], len(fresh), scale * rows.sum(axis=0), beta
    )
    # Normalised, and by the paper's own formula, written out for tests of whole federations.
    ages, deltas = [0] * len(fresh) + staleness, [*rows, *updates]
    expected = relays_weights(ages, deltas, beta)
    final = [weight / (len(fresh) + sum(found)) for weight in [1.0] * len(fresh) + found]
    assert sum(final) == pytest.approx(1)
    assert final == pytest.approx(expected, abs=1e-9)


# The server's step with them.


def one(version: int, staleness: int = 0, steps: int = 1) -> Participation:
    return Participation(0, 0, 0, version, 1, 0.0, steps=steps, arrives=1.0, staleness=staleness)


def server_update(fresh: int, *staleness: int, version: int = 9, idle: tuple[int, ...] = ()) -> ServerUpdate:
    """``idle``: places of clients without an example."""
    ages = [0] * fresh + list(staleness)
    updates = [one(version - 1 - age, age, steps=place not in idle) for place, age in enumerate(ages)]
    given = [1.0] * fresh + damped(*staleness)
    return ServerUpdate(version, 0.0, updates, given, Totals(), [], boost=BETA)


def server(statistics: int = 0, start: np.ndarray = START, **settings: Any) -> ServerModel:
    made = {"server_optimizer": SGD(name="sgd", rate=1.0), **settings}
    client = ClientSettings(batch_size=1, epochs=1, optimizer=SGD(name="sgd", rate=1.0))
    return ServerModel(
        SynchronousSettings(scheduler="synchronous", cohort=2, client=client, **made), start, statistics=statistics
    )


FIRST, SECOND = 0.325 + BETA * HALF, 0.1625 + BETA * WHOLE
"""What the two stale updates weigh beside a fresh one's 1; all together weigh 2 + FIRST + SECOND = 2.7861619."""
EVERYTHING = {None: vectors((6, 2))[0], Alone(2): vectors((3, 4))[0], Alone(3): vectors((-3, 1))[0]}
ENDS = (6, 100, 0)
"""Where the statistics of these end: of the fresh ones the sum."""
MEAN = np.array([6 + 3 * FIRST - 3 * SECOND, 2 + 4 * FIRST + SECOND]) / (2 + FIRST + SECOND)


def test_the_server_steps_along_the_weighted_mean() -> None:
    np.testing.assert_allclose(MEAN, [2.173611, 1.433305], atol=1e-6)
    moved = server().apply(server_update(2, 1, 3), EVERYTHING, {})
    np.testing.assert_allclose(moved, START - MEAN, rtol=1e-6)


def test_where_all_are_the_same_update_so_is_the_mean() -> None:
    # The final coefficients sum to 1.
    for fresh, staleness in ((0, (1,)), (0, (1, 4)), (3, (2,)), (3, (1, 1, 7))):
        same = vectors((0.5, -2))[0]
        totals = {Alone(place): same for place in range(fresh, fresh + len(staleness))}
        moved = server().apply(server_update(fresh, *staleness), totals | {None: fresh * same} if fresh else totals, {})
        np.testing.assert_allclose(moved, START - same, rtol=1e-6)


def test_stale_updates_alone_are_a_mean_by_their_age() -> None:
    # 1/2 and 1/4 of DynSGD, over their sum: 2/3 (3, 4) + 1/3 (-3, 1) = (1, 3).
    totals = {Alone(0): vectors((3, 4))[0], Alone(1): vectors((-3, 1))[0]}
    np.testing.assert_allclose(server().apply(server_update(0, 1, 3), totals, {}), START - [1, 3], rtol=1e-6)


def test_fresh_updates_alone_are_their_mean() -> None:
    np.testing.assert_allclose(server().apply(server_update(2), {None: vectors((6, 2))[0]}, {}), START - [3, 1])


def test_who_has_no_example_counts_with_an_update_of_zero() -> None:
    # The stale one without an example differs from the mean by (3, 1) / 3: Lambda = 10 / 9 / 10 = 1 / 9 beside 4 / 10.
    other = 0.325 + BETA * (1 - math.exp(-10 / 36))
    totals = {None: vectors((6, 2))[0], Alone(3): vectors((-3, 1))[0]}
    moved = server().apply(server_update(2, 1, 3, idle=(2,)), totals, {})
    mean = np.array([6 - 3 * SECOND, 2 + SECOND]) / (2 + other + SECOND)
    np.testing.assert_allclose(moved, START - mean, rtol=1e-6)
    # Fresh ones that have none are a mean of zero, and nobody is boosted: 0.325 (3, 4) / 2.325.
    moved = server().apply(server_update(2, 1, idle=(0, 1)), {Alone(2): vectors((3, 4))[0]}, {})
    np.testing.assert_allclose(moved, START - 0.325 / 2.325 * np.array([3, 4]), rtol=1e-6)
    np.testing.assert_array_equal(server().apply(server_update(1, 2, idle=(0, 1)), {}, {}), START)


def test_momentum_and_an_average_take_it_like_any_update() -> None:
    model = server(server_optimizer=SGD(name="sgd", rate=0.5, momentum=0.5), ema=MovingAverageSettings(decay=0.75))
    # Velocities m, then m + m / 2.
    first = model.apply(server_update(2, 1, 3), {part: vector.copy() for part, vector in EVERYTHING.items()}, {})
    second = model.apply(server_update(2, 1, 3, version=10), EVERYTHING, {})
    np.testing.assert_allclose(first, START - 0.5 * MEAN, rtol=1e-6)
    np.testing.assert_allclose(second, START - (0.5 + 0.75) * MEAN, rtol=1e-6)
    # 0.75 (0.75 w0 + 0.25 w1) + 0.25 w2.
    np.testing.assert_allclose(model.output(), 0.5625 * START + 0.1875 * first + 0.25 * second, rtol=1e-6)


def test_running_statistics_are_weighted_alike_and_tell_no_distance() -> None:
    # The last entry is a running statistic, of which the ranks send where it ends. It moves to the clients' own by the
    # final weights; as a part of the distances it would change these.
    totals = {
        part: np.append(vector, np.float32(end)) for (part, vector), end in zip(EVERYTHING.items(), ENDS, strict=True)
    }
    model = server(statistics=1, start=np.append(START, np.float32(7)))
    moved = model.apply(server_update(2, 1, 3), totals, {})
    np.testing.assert_allclose(moved[:2], START - MEAN, rtol=1e-6)
    np.testing.assert_allclose(moved[2], (6 + 100 * FIRST) / (2 + FIRST + SECOND), rtol=1e-6)
    # Who has no example has no statistics either: the server's own takes its part.
    del totals[Alone(3)]
    moved = server(statistics=1, start=np.append(START, np.float32(7))).apply(
        server_update(2, 1, 3, idle=(3,)), totals, {}
    )
    # Lambda of (3, 4) is 1 / 10, of the zero update 1 / 9.
    of_first, of_none = 0.325 + BETA * (1 - math.exp(-0.9)), 0.1625 + BETA * WHOLE
    np.testing.assert_allclose(moved[2], (6 + 100 * of_first + 7 * of_none) / (2 + of_first + of_none), rtol=1e-6)
