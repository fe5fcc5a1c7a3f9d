"""Draws by weight without replacement."""

from collections import Counter

import numpy as np

from fedhpc.federation.weighted_draw import drawn_by_weight


def test_pairs_come_as_often_as_successive_draws_give_them() -> None:
    # Of weights 1, 2, 5: first 5/8, then 2/3 of what is left, and so on.
    generator, weights = np.random.default_rng(1), np.array([1, 2, 5])
    found = Counter(tuple(drawn_by_weight(generator, weights, 2).tolist()) for _ in range(16_000))
    for first, second in [(2, 1), (2, 0), (1, 2), (1, 0), (0, 2), (0, 1)]:
        expected = 16_000 * weights[first] / 8 * weights[second] / (8 - weights[first])
        assert abs(found[first, second] - expected) < 5 * expected**0.5


def test_what_weighs_nothing_comes_last_and_all_alike() -> None:
    generator, weights = np.random.default_rng(1), np.array([0.0, 3.0, 0.0, 0.0])
    found = Counter(tuple(drawn_by_weight(generator, weights, 2).tolist()) for _ in range(3000))
    assert set(found) == {(1, 0), (1, 2), (1, 3)}
    assert max(abs(times - 1000) for times in found.values()) < 5 * 26
    assert drawn_by_weight(generator, weights, 0).tolist() == []
    assert sorted(drawn_by_weight(generator, weights, 4).tolist()) == [0, 1, 2, 3]
