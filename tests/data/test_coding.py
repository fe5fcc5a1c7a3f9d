import numpy as np
import pytest

from fedhpc.data.sources.coding import codes, holds_fractions


@pytest.mark.parametrize(
    ("values", "expected", "names"),
    [
        (np.array([2, 0, 1, 2], np.uint8), [2, 0, 1, 2], ("0", "1", "2")),
        (np.array([30, -5, 30]), [1, 0, 1], ("-5", "30")),
        (np.array(["b", "a", "b"]), [1, 0, 1], ("a", "b")),
        (np.array(["10", "9", "2"]), [2, 1, 0], ("2", "9", "10")),
        (np.array(["10.0", "9.0"]), [1, 0], ("9", "10")),
        (np.array(["7", "007"]), [1, 0], ("007", "7")),
        (np.array([3.0, 1.0]), [1, 0], ("1", "3")),
        (np.array([True, False]), [1, 0], ("0", "1")),
    ],
)
def test_codes_are_ranks_in_sorted_order(values, expected, names):
    ranks, found = codes(values)
    assert ranks.dtype == np.int64
    assert ranks.tolist() == expected
    assert found == names


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["1", "2.0"], False), (["1", "2.5"], True), (["a", "2.5"], False), ([1.5, 2.0], True), ([1, 2], False)],
)
def test_fractions_are_seen_in_numbers_and_in_text(values, expected):
    assert holds_fractions(np.array(values)) is expected
