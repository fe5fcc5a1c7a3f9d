import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.analysis.ridges import Histogram, counted, histogram_rows, ridges_drawn

LINEAR, GEOMETRIC = np.linspace(0, 4, 9), np.geomspace(0.5, 32, 7)


@pytest.mark.parametrize("edges", [LINEAR, GEOMETRIC])
def test_counts_by_hand(edges: np.ndarray) -> None:
    middles = (edges[:-1] + edges[1:]) / 2
    values = np.repeat(middles, np.arange(len(middles)))
    # The last bin holds its upper edge; what lies outside and what is not there counts nowhere.
    values = np.concatenate([values, [edges[-1], np.nan, -1.0, edges[-1] + 1]])
    expected = np.arange(len(middles), dtype=float)
    expected[-1] += 1
    np.testing.assert_array_equal(counted(values.reshape(2, -1) if values.size % 2 == 0 else values, edges), expected)
    np.testing.assert_array_equal(counted(10 * values, edges, 10.0), expected)


@given(st.lists(st.floats(0.0, 4.0, width=32), max_size=50))
def test_counts_are_numpys_but_for_rounding(values: list[float]) -> None:
    numbers = np.array([one for one in values if np.abs(one - LINEAR).min() > 1e-6], np.float32)
    np.testing.assert_array_equal(counted(numbers, LINEAR), np.histogram(numbers, LINEAR)[0])


def test_two_groups_one_above_another() -> None:
    ones = np.array([1.0, 0, 3])
    histogram = Histogram(np.arange(4.0), {"a": ones, "b": np.zeros(3)}, {"a": ones[::-1].copy()}, "seconds")
    figure = ridges_drawn(["a", "b"], {"slow": histogram}, "clients", groups=("these", "those"))
    (panel,) = figure.axes
    assert [text.get_text() for text in panel.get_yticklabels()] == ["a", "b"]
    filled, outline = (bars.get_data().values for bars in panel.patches)
    np.testing.assert_allclose(filled, 1 + 0.9 * ones / 3)
    np.testing.assert_allclose(outline, filled[::-1])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["these", "those"]
    rows = histogram_rows({"slow": histogram}, ("standard", "straggler"))
    assert rows[0] == {"scenario": "slow", "algorithm": "a", "clients": "standard", "from": 0.0, "to": 1.0, "count": 1}
    assert [(row["clients"], row["from"], row["count"]) for row in rows[1:]] == [
        ("standard", 2.0, 3),
        ("straggler", 0.0, 3),
        ("straggler", 2.0, 1),
    ]


def test_both_groups_are_of_one_scale_which_is_told() -> None:
    few, many = np.array([4.0, 0, 0]), np.array([0.0, 6, 12])
    histogram = Histogram(np.arange(4.0), {"a": many, "b": np.zeros(3)}, {"a": few}, "seconds")
    (panel,) = ridges_drawn(["a", "b"], {"slow": histogram}, "clients").axes
    filled, outline = (bars.get_data().values for bars in panel.patches)
    np.testing.assert_allclose(filled - 1, [0, 0.45, 0.9])
    np.testing.assert_allclose(outline - 1, [0.3, 0, 0])
    (heights,) = panel.child_axes
    assert heights.get_ylabel() == "clients"
    # Of b there is nothing that a height could be of.
    assert [text.get_text() for text in heights.get_yticklabels()] == ["12"]
    np.testing.assert_allclose(heights.get_yticks(), [1.9])


def test_logarithmic_heights_have_ticks_at_powers_of_ten() -> None:
    histogram = Histogram(np.arange(4.0), {"a": np.array([1.0, 10, 50])}, {}, "seconds")
    (panel,) = ridges_drawn(["a"], {"slow": histogram}, "client updates", logarithmic_heights=True).axes
    # A bar of one begins at one half: ln 2 of ln 100 is its height, and ln 20 of ln 100 that of ten.
    np.testing.assert_allclose(panel.patches[0].get_data().values, 0.9 * np.log([2, 20, 100]) / np.log(100))
    (heights,) = panel.child_axes
    np.testing.assert_allclose(heights.get_yticks(minor=True), 0.9 * np.log([2, 20]) / np.log(100))
    assert heights.get_ylabel() == "client updates,\nlogarithmic"
