"""The deltas of past rounds, by hand."""

import numpy as np

from fedhpc.federation.round_deltas import RoundDelta, RoundDeltas


def test_late_clients_count_even_where_they_have_no_example() -> None:
    deltas = RoundDeltas({0: RoundDelta(np.array([6.0, 2.0], np.float32), 2)})
    deltas.add(0, None, 1)
    assert deltas.by_round[0].clients == 3
    np.testing.assert_allclose(deltas.by_round[0].mean(), [2, 2 / 3], rtol=1e-6)
    deltas.add(0, np.array([2.0, 2.0], np.float32), 1)
    np.testing.assert_allclose(deltas.by_round[0].mean(), [2, 1])


def test_a_teachers_delta_stays_as_it_was() -> None:
    deltas = RoundDeltas({0: RoundDelta(np.array([6.0, 2.0], np.float32), 2)})
    deltas.assign(1, {-3: 0}, {"momentum": np.zeros(2)})
    deltas.add(0, np.array([3.0, 1.0], np.float32), 1)
    np.testing.assert_allclose(deltas.of_teachers[1][-3].total, [6, 2])
    deltas.forget(1)
    assert not deltas.of_teachers
    assert not deltas.server
