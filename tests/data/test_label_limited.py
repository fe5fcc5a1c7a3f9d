"""RELAY's label-limited mapping: its three distributions, and clients who share examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedhpc.data.label_limited import label_limited, shares
from fedhpc.data.partitions import ImpossiblePartition
from fedhpc.data.settings import LabelLimited
from fedhpc.streams import Purpose, sequential

DISTRIBUTIONS = ("balanced", "uniform", "zipf")
# Four classes of 30 to 60 examples each, with gaps between their numbers.
plenty = st.tuples(*[st.integers(30, 60)] * 4).map(lambda sizes: np.repeat([1, 4, 5, 9], sizes))


def _limited(clients=6, labels=2, distribution="balanced", **others):
    keys = {"kind": "label_limited", "clients": clients, "labels": labels, "distribution": distribution}
    return LabelLimited(**keys, **others)


def _drawn(partition, labels, seed=0, trial=0):
    return label_limited(partition, labels, sequential(seed, trial, Purpose.PARTITION))


def _counts(rows, clients, labels, partition):
    """Examples of each client and class."""
    classes, numbers = np.unique(labels, return_inverse=True)
    counts = np.zeros((partition.clients, len(classes)), int)
    np.add.at(counts, (clients, numbers[rows]), 1)
    return counts


limited = st.builds(
    _limited,
    clients=st.integers(1, 12),
    labels=st.integers(1, 4),
    distribution=st.sampled_from(DISTRIBUTIONS),
    examples=st.integers(1, 30) | st.none(),
)


@given(limited, plenty, st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_every_client_has_its_number_of_its_own_labels_and_no_example_twice(partition, labels, seed):
    rows, clients = _drawn(partition, labels, seed)
    each = len(labels) // partition.clients if partition.examples is None else partition.examples
    assert clients.tolist() == np.repeat(np.arange(partition.clients), each).tolist()
    counts = _counts(rows, clients, labels, partition)
    assert (np.count_nonzero(counts, axis=1) <= partition.labels).all()
    sizes = np.unique(labels, return_counts=True)[1]
    for client in range(partition.clients):
        own, times = np.unique(rows[clients == client], return_counts=True)
        for number, label in enumerate([1, 4, 5, 9]):
            of_label = times[labels[own] == label]
            # A class that has too few is given again only when all of it is there.
            if counts[client, number] <= sizes[number]:
                assert (of_label == 1).all()
            else:
                assert len(of_label) == sizes[number]
                assert of_label.max() - of_label.min() <= 1
    again = _drawn(partition, labels, seed)
    np.testing.assert_array_equal(again[0], rows)


@given(limited, plenty, st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_balanced_labels_differ_by_at_most_one(partition, labels, seed):
    balanced = partition.model_copy(update={"distribution": "balanced", "exponent": None})
    rows, clients = _drawn(balanced, labels, seed)
    counts = np.sort(_counts(rows, clients, labels, balanced))[:, -balanced.labels :]
    assert (counts.max(axis=1) - counts.min(axis=1) <= 1).all()


def test_by_hand():
    labels = np.array([7, 2, 7, 2, 7, 2])
    # One client of both labels with all six examples, one with two of each, one with five: three of one, two of the
    # other.
    assert sorted(_drawn(_limited(1, 2), labels)[0]) == [0, 1, 2, 3, 4, 5]
    rows, clients = _drawn(_limited(1, 2, examples=4), labels)
    assert (len(set(rows)), np.bincount(labels[rows]).tolist()) == (4, [0, 0, 2, 0, 0, 0, 0, 2])
    threes = {
        int(np.bincount(labels[_drawn(_limited(1, 2, examples=5), labels, seed)[0]]).argmax()) for seed in range(20)
    }
    assert threes == {2, 7}
    # One label with more examples than the class has: all three twice, and a third time one of them.
    rows, clients = _drawn(_limited(2, 1, examples=7), labels, 1)
    for client in (0, 1):
        own, times = np.unique(rows[clients == client], return_counts=True)
        assert len(set(labels[own])) == 1
        assert sorted(times) == [2, 2, 3]


def test_clients_share_examples_and_draw_them_evenly():
    clients, each = 3000, 10
    labels = np.repeat([0, 1, 2, 3, 4], 40)
    rows, _ = _drawn(_limited(clients, 2, examples=each), labels)
    held = np.bincount(rows, minlength=len(labels))
    # A client has the label with the chance 2/5, and of it 5 of 40 examples: an example lies with 5 % of the clients.
    expected = clients * 0.05
    assert held.mean() == expected
    assert np.abs(held - expected).max() < 5 * (expected * 0.95) ** 0.5


def test_which_labels_a_client_has_is_drawn_evenly():
    clients = 4000
    labels = np.repeat(np.arange(5), 10)
    partition = _limited(clients, 2, examples=2)
    held = _counts(*_drawn(partition, labels), labels, partition) > 0
    assert (held.sum(axis=1) == 2).all()
    np.testing.assert_allclose(held.mean(axis=0), 0.4, atol=5 * (0.24 / clients) ** 0.5)
    pairs = np.unique(held, axis=0, return_counts=True)[1]
    assert len(pairs) == 10
    np.testing.assert_allclose(pairs / clients, 0.1, atol=5 * (0.09 / clients) ** 0.5)


def test_the_shares_of_zipfs_ranks():
    # 1, 2^-1.95 = 0.25882, 3^-1.95 = 0.11739 and 4^-1.95 = 0.06699, over their sum 1.44320.
    np.testing.assert_allclose(shares(_limited(1, 4, "zipf")), [0.69291, 0.17934, 0.08134, 0.04642], atol=1e-5)
    np.testing.assert_allclose(shares(_limited(1, 3, "zipf", exponent=1.0)), [6 / 11, 3 / 11, 2 / 11])
    np.testing.assert_allclose(shares(_limited(1, 4, "uniform")), [0.25] * 4)


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
def test_labels_are_drawn_by_the_shares_of_their_ranks(distribution):
    # So many examples of each client that its labels' numbers stand in the order of their ranks.
    clients, each = 40, 20_000
    labels = np.repeat(np.arange(6), each)
    partition = _limited(clients, 3, distribution, examples=each)
    counts = _counts(*_drawn(partition, labels), labels, partition)
    expected = shares(partition)
    spread = 5 * (expected * (1 - expected) / each) ** 0.5
    assert (np.abs(np.sort(counts)[:, :2:-1] / each - expected) < spread).all()
    # The ranks are of the client's own order: every label is somebody's first.
    if distribution == "zipf":
        assert set(counts.argmax(axis=1)) == set(range(6))
    # With few examples, the numbers are chance: binomial, of the mean and variance of the shares.
    small = _limited(4000, 3, distribution, examples=20)
    few = _counts(*_drawn(small, labels), labels, small)
    assert few[few > 0].sum() == 4000 * 20
    squares = (few.astype(float) ** 2).sum(axis=1)
    # E[n_r^2] = 20 p (1 - p) + (20 p)^2.
    assert squares.mean() == pytest.approx((20 * expected * (1 - expected) + (20 * expected) ** 2).sum(), rel=0.02)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_seed_and_trial_decide_and_nothing_else(distribution):
    labels, partition = np.arange(300) % 5, _limited(6, 3, distribution)
    np.testing.assert_array_equal(_drawn(partition, labels, 3, 4), _drawn(partition, labels, 3, 4))
    assert (_drawn(partition, labels, 3, 4)[0] != _drawn(partition, labels, 3, 5)[0]).any()
    assert (_drawn(partition, labels, 3, 4)[0] != _drawn(partition, labels, 4, 4)[0]).any()


def test_what_cannot_be_dealt_is_told_with_the_mend():
    labels = np.arange(20) % 3
    with pytest.raises(ImpossiblePartition) as error:
        _drawn(_limited(labels=4), labels)
    assert str(error.value) == "labels: 4 exceeds the 3 classes of the training data; lower it"
    with pytest.raises(ImpossiblePartition) as error:
        _drawn(_limited(clients=21), labels)
    assert str(error.value) == (
        "clients: 21 exceeds the 20 training examples, of which each then holds none; lower it, or give examples"
    )
    assert len(_drawn(_limited(clients=21, examples=1), labels)[0]) == 21


def test_the_exponent_is_for_zipf():
    assert _limited(distribution="zipf").exponent == 1.95
    assert _limited(distribution="balanced").exponent is None
    with pytest.raises(ValidationError, match=r"1\.95 is for distribution zipf; leave it out, or take zipf"):
        _limited(distribution="uniform", exponent=1.95)
    for distribution in DISTRIBUTIONS:
        partition = _limited(distribution=distribution)
        assert LabelLimited.model_validate(partition.model_dump()) == partition
