import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from fedhpc.analysis.rank_correlation import kendall_tau


def test_by_hand() -> None:
    assert kendall_tau([1, 2, 3], [10, 20, 30]) == 1
    assert kendall_tau([1, 2, 3], [3, 2, 1]) == -1
    # Of six pairs five agree and one does not.
    assert kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)
    # One tie: two pairs agree of three and two that are ordered.
    assert kendall_tau([1, 2, 3], [1, 1, 2]) == pytest.approx(2 / math.sqrt(6))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=10))
def test_as_scipy_has_it(pairs: list[tuple[int, int]]) -> None:
    one, other = [a for a, _ in pairs], [b for _, b in pairs]
    expected = float(kendalltau(one, other).statistic) if len(pairs) > 1 else math.nan
    assert kendall_tau(one, other) == pytest.approx(expected, nan_ok=True)
