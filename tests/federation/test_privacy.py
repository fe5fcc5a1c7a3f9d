"""The noise of both mechanisms, against a tree that is written out node by node."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.federation.privacy import GaussianNoise, TreeNoise, noise_std

SEED, TRIAL, PURPOSE = 5, 2, 10


def unit_normals(first: int, second: int, parameters: int) -> np.ndarray:
    """The stream named by these two words, as the streams' documentation has it."""
    key = np.random.SeedSequence(SEED, spawn_key=(TRIAL, PURPOSE)).generate_state(2, np.uint64)
    philox = np.random.Philox(key=key, counter=[0, 0, second, first])
    return np.random.Generator(philox).standard_normal(parameters, np.float32)


def cover(steps: int) -> list[tuple[int, int]]:
    """The intervals (first step, last step) of the nodes that make the prefix: the largest power of two, and so on."""
    intervals, begin = [], 0
    while begin < steps:
        size = 1
        while begin + 2 * size <= steps:
            size *= 2
        intervals.append((begin + 1, begin + size))
        begin += size
    return intervals


def in_order(first: int, last: int) -> int:
    """The node's number where an infinite tree is read from left to right: leaves are odd, and a node above two
    stands midway between its outermost leaves."""
    return (first - 1) + last


def prefix_noise(tree: int, steps: int, std: float, parameters: int) -> np.ndarray:
    nodes = [unit_normals(tree, in_order(*interval), parameters).astype(np.float64) for interval in cover(steps)]
    return std * np.sum(nodes, axis=0)


def test_prefixes_are_covered_as_binary_numbers_are_written() -> None:
    # By hand: 13 = 8 + 4 + 1.
    assert cover(13) == [(1, 8), (9, 12), (13, 13)]
    # By hand, leaves 1 to 4 and what stands above: 1 (1-2) 3 | (1-4) | 5 (3-4) 7.
    assert [in_order(1, 1), in_order(1, 2), in_order(2, 2), in_order(1, 4), in_order(3, 4)] == [1, 2, 3, 4, 6]


@pytest.mark.parametrize("tree", [0, 3])
def test_increments_add_up_to_the_trees_prefix_sums(tree: int) -> None:
    noise = TreeNoise(SEED, TRIAL, 0.5, 3)
    total = np.zeros(3)
    for step in range(1, 70):
        total += noise.increment(tree, step)
        assert total == pytest.approx(prefix_noise(tree, step, 0.5, 3), abs=1e-5)


@given(st.integers(0, 2**40), st.integers(1, 2**50))
def test_any_increment_alone_is_the_difference_of_two_prefix_sums(tree: int, step: int) -> None:
    increment = TreeNoise(SEED, TRIAL, 2.0, 4).increment(tree, step)
    expected = prefix_noise(tree, step, 2.0, 4) - (prefix_noise(tree, step - 1, 2.0, 4) if step > 1 else 0.0)
    assert increment.dtype == np.float32
    assert increment == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=12))
def test_what_was_drawn_before_changes_nothing(asked: list[tuple[int, int]]) -> None:
    noise = TreeNoise(SEED, TRIAL, 1.0, 5)
    for tree, step in asked:
        assert noise.increment(tree, step).tobytes() == TreeNoise(SEED, TRIAL, 1.0, 5).increment(tree, step).tobytes()


def test_a_prefix_sums_variance_counts_its_nodes() -> None:
    # 20,000 parameters are as many samples: N(t) has std^2 for each one of t's binary digits. A variance that is
    # estimated from n samples has the relative standard deviation sqrt(2 / n) = 1 %.
    noise, total = TreeNoise(SEED, TRIAL, 3.0, 20_000), np.zeros(20_000)
    for step, ones in enumerate([1, 1, 2, 1, 2, 2, 3, 1, 2], 1):
        total += noise.increment(0, step)
        assert np.var(total) == pytest.approx(9.0 * ones, rel=0.05)
        assert abs(np.mean(total)) < 5 * 3.0 * np.sqrt(ones / 20_000)


def test_prefix_sums_share_the_noise_of_the_nodes_they_share() -> None:
    # N(6) = (1-4) + (5-6) and N(5) = (1-4) + (5): covariance 1 node; N(4) and N(3) = (1-2) + (3) share none.
    noise, sums = TreeNoise(SEED, TRIAL, 1.0, 20_000), [np.zeros(20_000)]
    for step in range(1, 7):
        sums.append(sums[-1] + noise.increment(0, step))
    covariances = [float(np.mean(before * after)) for before, after in pairwise(sums[1:])]
    # N(1)N(2): none; N(2)N(3): (1-2); N(3)N(4): none; N(4)N(5): (1-4); N(5)N(6): (1-4).
    assert covariances == pytest.approx([0, 1, 0, 1, 1], abs=0.06)


def test_trees_trials_and_seeds_have_their_own_noise() -> None:
    keys = [(SEED, TRIAL, 0), (SEED, TRIAL, 1), (SEED, TRIAL + 1, 0), (SEED + 1, TRIAL, 0)]
    drawn = {TreeNoise(seed, trial, 1.0, 4).increment(tree, 1).tobytes() for seed, trial, tree in keys}
    assert len(drawn) == len(keys)


def test_a_tree_has_no_step_0() -> None:
    with pytest.raises(ValueError, match="step 0 is none of a tree, whose steps count from 1"):
        TreeNoise(SEED, TRIAL, 1.0, 4).increment(0, 0)


def test_gaussian_noise_is_fresh_at_every_step() -> None:
    noise = GaussianNoise(SEED, TRIAL, 0.25, 20_000)
    first, second, again = noise.of(1), noise.of(2), noise.of(1)
    assert first.dtype == np.float32
    assert first.tobytes() == again.tobytes()
    assert first == pytest.approx(0.25 * unit_normals(0, 1, 20_000))
    assert np.std(first) == pytest.approx(0.25, rel=0.025)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(20_000)


def test_the_noise_is_in_proportion_to_what_one_client_can_change() -> None:
    # A clip of 0.5 and a mean of ten: one client moves the sum by 0.05; four times that.
    assert noise_std(4.0, 0.5, 0.1) == pytest.approx(0.2)
