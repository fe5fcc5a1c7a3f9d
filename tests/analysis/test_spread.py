import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.analysis.spread import Spread, bounds, kind_of, kinds_of, spread


def test_few_trials_have_a_range_and_ten_the_papers_interval() -> None:
    assert spread(np.arange(9.0)) == Spread(4, 0, 8)
    # By hand: of 0 to 10 the 5th percentile lies half-way between the first two.
    eleven = spread(np.arange(11.0)[::-1].copy())
    assert eleven == Spread(5, pytest.approx(0.5), pytest.approx(9.5))
    assert (kind_of(9), kind_of(10)) == ("range", "90 % interval")
    assert kinds_of([3, 0]) == "the range over trials"
    assert kinds_of([12, 0]).startswith("the 90 % interval over trials (5th to 95th")
    assert kinds_of([12, 3]).endswith("where 10 or more are there, else the range")


def test_a_target_that_some_trials_never_reach_leaves_the_interval_open() -> None:
    one = spread(np.array([*range(1, 11), np.inf, np.inf]))
    # By hand: the sixth and seventh of twelve; a twentieth of the way from the first to the last is 0.55 of a step.
    assert (one.median, one.low, one.high) == (6.5, pytest.approx(1.55), np.inf)
    never = spread(np.full(12, np.inf))
    assert (never.median, never.low, never.high) == (np.inf, np.inf, np.inf)


@given(st.lists(st.floats(-1e6, 1e6), min_size=10, max_size=40))
def test_the_interval_is_numpys_percentiles(values: list[float]) -> None:
    low, high = bounds(np.array(values))
    np.testing.assert_allclose([low, high], np.percentile(values, [5, 95]), rtol=1e-9, atol=1e-6)
