import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError

from fedhpc.data.partitions import ImpossiblePartition, classes_held, owners
from fedhpc.data.settings import IID, ClassPartition, Dirichlet, DualDirichlet, TwoClasses
from fedhpc.streams import Purpose, sequential

labels_of_examples = arrays(np.int64, st.integers(0, 200), elements=st.integers(0, 4))
partitions = st.one_of(
    st.builds(IID, kind=st.just("iid"), clients=st.integers(1, 30)),
    st.builds(Dirichlet, kind=st.just("dirichlet"), clients=st.integers(1, 30), concentration=st.floats(1e-300, 1e12)),
)
# Three classes, of 30 to 60 examples each, and gaps between their numbers.
plenty = st.tuples(*[st.integers(30, 60)] * 3).map(lambda sizes: np.repeat([1, 4, 5], sizes))
dual = st.builds(
    DualDirichlet,
    kind=st.just("dual_dirichlet"),
    clients=st.integers(1, 8),
    size_concentration=st.floats(1e-9, 1e12),
    class_concentration=st.floats(1e-9, 1e12),
    empty_clients=st.just(True),
)
by_class = st.builds(
    lambda clients, least, more, std: ClassPartition(
        kind="class_partition", clients=clients, least_classes=least, most_classes=min(least + more, 3), std=std
    ),
    st.integers(3, 12),
    st.integers(1, 3),
    st.integers(0, 2),
    st.floats(0, 50),
)
# How many of MNIST's 70,000 images show each digit.
MNIST = [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]


def _dealt(partition, labels, seed=0, trial=0):
    return owners(partition, labels, sequential(seed, trial, Purpose.PARTITION))


def _class(clients, least, most, **others):
    keys = {"kind": "class_partition", "clients": clients, "least_classes": least, "most_classes": most}
    return ClassPartition(**keys, **others)


def _dual(clients, sizes, classes, **others):
    keys = {"kind": "dual_dirichlet", "clients": clients, "size_concentration": sizes, "class_concentration": classes}
    return DualDirichlet(**keys, **others)


def _two(clients, **others):
    return TwoClasses(kind="two_classes", clients=clients, **others)


def _counts(owner, labels, clients):
    """Examples of each client and class, without those that nobody has."""
    classes, numbers = np.unique(labels, return_inverse=True)
    counts = np.zeros((clients, len(classes)), int)
    np.add.at(counts, (owner[owner >= 0], numbers[owner >= 0]), 1)
    return counts


def _refused(partition, labels):
    with pytest.raises(ImpossiblePartition) as error:
        _dealt(partition, labels)
    return str(error.value)


@given(partitions, labels_of_examples, st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_every_example_has_one_client_and_the_seed_decides_which(partition, labels, seed):
    owner = _dealt(partition, labels, seed)
    assert owner.shape == labels.shape
    assert owner.dtype == np.int64
    assert ((owner >= 0) & (owner < partition.clients)).all()
    np.testing.assert_array_equal(owner, _dealt(partition, labels, seed))


@given(labels_of_examples, st.integers(1, 30))
@settings(max_examples=50, deadline=None)
def test_iid_sizes_differ_by_at_most_one(labels, clients):
    sizes = np.bincount(_dealt(IID(kind="iid", clients=clients), labels), minlength=clients)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("concentration", [1e-6, 1e-300])
def test_a_vanishing_concentration_gives_each_class_to_one_client(concentration):
    labels = np.repeat(np.arange(10), 50)
    owner = _dealt(Dirichlet(kind="dirichlet", clients=60, concentration=concentration), labels)
    for label in range(10):
        assert len(set(owner[labels == label])) == 1


def test_a_great_concentration_gives_everyone_the_same_share():
    labels = np.repeat(np.arange(3), 1000)
    owner = _dealt(Dirichlet(kind="dirichlet", clients=10, concentration=1e9), labels)
    for label in range(3):
        assert np.abs(np.bincount(owner[labels == label], minlength=10) - 100).max() <= 1


def test_dirichlet_shares_have_the_distribution_s_mean_and_variance():
    # For Dirichlet(a, ..., a) over K: mean 1/K, variance (K-1) / (K^2 (K a + 1)).
    clients, concentration, classes = 5, 0.5, 2000
    labels = np.repeat(np.arange(classes), 200)
    owner = _dealt(Dirichlet(kind="dirichlet", clients=clients, concentration=concentration), labels)
    shares = np.bincount(labels * clients + owner, minlength=classes * clients).reshape(classes, clients) / 200
    variance = (clients - 1) / (clients**2 * (clients * concentration + 1))
    np.testing.assert_allclose(shares.mean(axis=0), 1 / clients, atol=5 * (variance / classes) ** 0.5)
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.15)


@pytest.mark.parametrize(
    "partition",
    [
        IID(kind="iid", clients=6),
        Dirichlet(kind="dirichlet", clients=6, concentration=1),
        _class(6, 1, 3),
        _dual(6, 6, 0.5),
        _two(6),
    ],
    ids=lambda partition: partition.kind,
)
def test_seed_and_trial_decide_and_nothing_else(partition):
    labels = np.arange(300) % 5
    np.testing.assert_array_equal(_dealt(partition, labels, 3, 4), _dealt(partition, labels, 3, 4))
    assert (_dealt(partition, labels, 3, 4) != _dealt(partition, labels, 3, 5)).any()
    assert (_dealt(partition, labels, 3, 4) != _dealt(partition, labels, 4, 4)).any()


@given(by_class | dual, plenty, st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_every_example_has_a_client_and_no_client_a_class_too_many(partition, labels, seed):
    owner = _dealt(partition, labels, seed)
    assert owner.shape == labels.shape
    assert ((owner >= 0) & (owner < partition.clients)).all()
    counts = _counts(owner, labels, partition.clients)
    if isinstance(partition, ClassPartition):
        assert (np.count_nonzero(counts, axis=1) <= partition.most_classes).all()
        assert (counts.sum(axis=1) > 0).all()


@given(by_class, st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_every_class_has_a_client_and_every_client_least_to_most_classes(partition, seed):
    held = classes_held(partition, 3, np.random.default_rng(seed))
    assert held.shape == (partition.clients, 3)
    assert held.any(axis=0).all()
    assert (held.sum(axis=1) >= partition.least_classes).all()
    assert (held.sum(axis=1) <= partition.most_classes).all()


def test_how_many_classes_and_which_are_drawn_evenly():
    # 40 clients of 1 to 3 out of 5 classes leave one out with a chance below 5 * 0.6^40.
    draws = [classes_held(_class(40, 1, 3), 5, np.random.default_rng(seed)) for seed in range(200)]
    held = np.concatenate(draws)
    numbers = held.sum(axis=1)
    for number in (1, 2, 3):
        assert np.mean(numbers == number) == pytest.approx(1 / 3, abs=5 * (2 / 9 / len(held)) ** 0.5)
    # A client holds a class with the chance 2/5, that of two on average out of five.
    np.testing.assert_allclose(held.mean(axis=0), 0.4, atol=5 * (0.24 / len(held)) ** 0.5)


def test_classes_that_everybody_holds_in_equal_shares():
    labels = np.repeat([7, 2], [8, 4])
    owner = _dealt(_class(4, 2, 2, std=0), labels)
    assert _counts(owner, labels, 4).tolist() == [[1, 2]] * 4
    # Which examples: not the first for the first client, for every seed.
    firsts = {tuple(np.flatnonzero(_dealt(_class(4, 2, 2, std=0), labels, seed) == 0)) for seed in range(5)}
    assert len(firsts) > 1


def test_the_clients_of_a_class_share_it_by_normal_draws_above_0():
    clients, classes, examples = 5, 300, 500
    labels = np.repeat(np.arange(classes), examples)
    for mean, std in ((10, 3), (1, 2)):  # of the latter, 31 % are drawn again
        owner = _dealt(_class(clients, classes, classes, mean=mean, std=std), labels)
        shares = _counts(owner, labels, clients) / examples
        drawn = np.random.default_rng(1).normal(mean, std, (200_000, 2 * clients))
        drawn = np.stack([row[row > 0][:clients] for row in drawn if (row > 0).sum() >= clients])
        expected = (drawn / drawn.sum(axis=1, keepdims=True)).var()
        # A variance over n draws of a kurtosis below 4 is off by sqrt(3 / n), relatively: 5 times that, of the four
        # shares of each class that are free.
        assert shares.var() == pytest.approx(expected, rel=5 * (3 / classes) ** 0.5 / 2)
        np.testing.assert_allclose(shares.mean(axis=1), 1 / clients, atol=5 * (expected / classes) ** 0.5 + 1 / 500)


def _beta_kurtosis(a, b):
    """The fourth central moment of Beta(a, b) over its variance squared."""
    excess = 6 * ((a - b) ** 2 * (a + b + 1) - a * b * (a + b + 2)) / (a * b * (a + b + 2) * (a + b + 3))
    return 3 + excess


def test_dual_dirichlet_sizes_have_the_distributions_mean_and_variance():
    # A single class: a client's size is its weight, a component of Dirichlet(alpha/m, ...) whose sum is alpha.
    clients, alpha, draws, examples = 5, 5.0, 1500, 2000
    labels = np.zeros(examples, int)
    partition = _dual(clients, alpha, 0.5, empty_clients=True)
    drawn = [np.bincount(_dealt(partition, labels, seed), minlength=clients) for seed in range(draws)]
    shares = np.array(drawn) / examples
    variance = 1 / clients * (1 - 1 / clients) / (alpha + 1)
    spread = (_beta_kurtosis(alpha / clients, alpha - alpha / clients) - 1) ** 0.5
    np.testing.assert_allclose(shares.mean(axis=0), 1 / clients, atol=5 * (variance / draws) ** 0.5 + 1 / examples)
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=5 * spread / draws**0.5, atol=1 / examples)


def test_dual_dirichlet_classes_have_the_distributions_mean_and_variance():
    # Of very many clients of equal weight, a class's weights add up to their mean, and a client's share of its own
    # examples is its own draw of Dirichlet(alpha * prior).
    clients, alpha, each = 3000, 0.5, 400
    prior = np.array([0.2, 0.3, 0.5])
    labels = np.repeat([0, 1, 2], (prior * clients * each).astype(int))
    partition = _dual(clients, 1e12, alpha, empty_clients=True)
    shares = _counts(_dealt(partition, labels), labels, clients) / each
    variance = prior * (1 - prior) / (alpha + 1)
    of_mean = (variance / clients) ** 0.5 / prior  # by how much the weights' mean is off, relatively
    np.testing.assert_allclose(shares.mean(axis=0), prior, rtol=1e-12)  # every example is dealt
    for share, expected, off, p in zip(shares.T, variance, of_mean, prior, strict=True):
        spread = ((_beta_kurtosis(alpha * p, alpha * (1 - p)) - 1) / clients) ** 0.5
        assert share.var() == pytest.approx(expected, rel=5 * (spread + 2 * off), abs=2 / each)


def test_dual_dirichlet_of_great_concentrations_is_even():
    labels = np.repeat([0, 1], [900, 300])
    counts = _counts(_dealt(_dual(6, 1e12, 1e12), labels), labels, 6)
    assert np.abs(counts - [150, 50]).max() <= 1


def test_dual_dirichlet_of_vanishing_concentrations_still_deals_every_example():
    # Each client has one class only and one client nearly all the weight, by factors that no float holds.
    labels = np.repeat(np.arange(10), 50)
    owner = _dealt(_dual(20, 1e-9, 1e-9, empty_clients=True), labels)
    for label in range(10):
        assert len(set(owner[labels == label])) == 1


def test_dirichlets_first_draw_is_that_of_the_plain_algorithm():
    labels, generator = np.arange(90) % 4, sequential(2, 0, Purpose.PARTITION)
    expected = np.empty(90, int)
    for label in range(4):
        rows = generator.permutation([row for row in range(90) if labels[row] == label])
        ends = np.cumsum(generator.dirichlet([0.5] * 7)) * len(rows)
        for place, row in enumerate(rows):
            expected[row] = min(client for client in range(7) if place < int(ends[client]) or client == 6)
    partition = {"kind": "dirichlet", "clients": 7, "concentration": 0.5}
    np.testing.assert_array_equal(_dealt(Dirichlet(**partition), labels, 2), expected)
    if len(set(expected)) == 7:
        np.testing.assert_array_equal(_dealt(Dirichlet(**partition, empty_clients=False), labels, 2), expected)


@pytest.mark.parametrize(
    "partition",
    [
        Dirichlet(kind="dirichlet", clients=12, concentration=0.3, empty_clients=False),
        _dual(12, 12, 0.5),
        _class(12, 1, 1),
    ],
    ids=lambda partition: partition.kind,
)
def test_no_client_is_empty_unless_that_is_asked_for(partition):
    labels = np.arange(60) % 5
    allowed = partition.model_copy(update={"empty_clients": True})
    some_were = 0
    for seed in range(40):
        first, kept = (set(_dealt(each, labels, seed).tolist()) for each in (allowed, partition))
        assert len(kept) == 12
        if len(first) == 12:
            np.testing.assert_array_equal(_dealt(allowed, labels, seed), _dealt(partition, labels, seed))
        else:
            some_were += 1
    assert some_were > 0


def test_what_cannot_be_dealt_is_told_with_the_mend():
    labels = np.repeat([0, 1, 2], [10, 3, 9])
    assert _refused(_class(5, 2, 4), labels) == ("most_classes: 4 exceeds the 3 classes of the training data; lower it")
    assert _refused(_class(2, 1, 1), labels).startswith(
        "most_classes: 2 clients of at most 1 classes cannot hold all 3 classes; raise it or clients"
    )
    assert _refused(_class(60, 1, 2), labels) == (
        "clients: 60 clients cannot have one each of 22 training examples; lower it, or set empty_clients: true"
    )
    assert _refused(_class(30, 1, 1), np.arange(30)).startswith("least_classes: drawn 20,000 times, the clients'")
    vanishing = Dirichlet(kind="dirichlet", clients=4, concentration=1e-300, empty_clients=False)
    for partition in (vanishing, _dual(4, 1e-9, 1)):
        told = _refused(partition, labels)
        assert told.startswith("empty_clients: in 1,000 partitions drawn, there always was a client without an example")
        assert "concentration" in told
    assert _refused(_two(4), np.zeros(50, int)) == "kind: two_classes needs two classes, and the training data have 1"
    assert _refused(_two(3), np.arange(500) % 5).startswith("clients: 3 clients of two neighbouring classes cannot")
    # Of classes 0, 1, 2 clients 0 to 3 hold (0, 1), (1, 2), (2, 0) and (0, 1): class 1 is held by three.
    assert _refused(_two(4, least=2), labels) == (
        "least: 3 clients of 2 examples each need more than the 3 of a class (the 2. in the labels' order); "
        "lower it or clients"
    )


def test_two_classes_by_hand():
    # Clients 0, 1, 2 hold (0, 1), (1, 2), (2, 0); each class has two holders, who first get one each. Of what is left
    # (9, 4 and 0) an equal share is 4.5, 2 and 0.
    labels = np.repeat([0, 1, 2], [11, 6, 2])
    owner = _dealt(_two(3, least=1, sigma=0), labels)
    assert _counts(owner, labels, 3).tolist() == [[5, 3, 0], [0, 3, 1], [5, 0, 1]]
    assert np.count_nonzero(owner == -1) == 1


@given(st.integers(2, 40), st.integers(1, 3), st.floats(0, 10), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_two_classes_are_the_plain_loops(clients, least, sigma, seed):
    sizes = [130, 125, 140]
    labels = np.repeat([3, 4, 8], sizes)
    owner = _dealt(_two(clients, least=least, sigma=sigma), labels, seed)
    drawn = sequential(seed, 0, Purpose.PARTITION).lognormal(0, sigma, (clients, 2))
    expected = np.zeros((clients, 3), int)
    for label in range(3):
        holders = [(client, slot) for client in range(clients) for slot in (0, 1) if (client + slot) % 3 == label]
        left = sizes[label] - least * len(holders)
        total = sum(drawn[holder] for holder in holders)
        for client, slot in holders:
            expected[client, label] = least + int(left * drawn[client, slot] / total + 1e-9)
        assert 0 <= sizes[label] - expected[:, label].sum() <= len(holders)
    # To rounding: a share that is a whole number may be taken for one less.
    assert np.abs(_counts(owner, labels, clients) - expected).max() <= 1
    assert np.count_nonzero(_counts(owner, labels, clients), axis=1).tolist() == [2] * clients


def test_two_classes_of_at_most_so_many():
    labels = np.repeat(np.arange(10), 600)
    plain = _counts(_dealt(_two(20, sigma=2.0), labels), labels, 20)
    capped = _counts(_dealt(_two(20, sigma=2.0, most=200), labels), labels, 20)
    sizes = plain.sum(1)
    assert (sizes > 200).any()
    assert (sizes <= 200).any()
    # Who held no more keeps all; the others have so many, less what rounding takes of each class, in their proportion.
    assert (capped[sizes <= 200] == plain[sizes <= 200]).all()
    large = sizes > 200
    assert np.isin(capped[large].sum(1), [199, 200]).all()
    assert (np.abs(capped[large] - plain[large] * 200 / sizes[large, None]) < 1).all()
    with pytest.raises(ValidationError, match="9 is below the 5 of each of two classes"):
        _two(20, most=9)


def test_two_classes_of_mnists_sizes_come_near_fedcores_table_1():
    labels = np.repeat(np.arange(10), MNIST)
    # Counted from the client -1 on, who has what nobody gets.
    sizes = [np.bincount(_dealt(_two(1000), labels, seed) + 1)[1:] for seed in range(40)]
    totals, deviations = [each.sum() for each in sizes], [each.std() for each in sizes]
    # 2,000 shares are rounded down, by half an example on average and 0.29 in deviation: 69,000 +- 13 are left.
    assert np.mean(totals) == pytest.approx(69_000, abs=20)
    assert np.mean(totals) == pytest.approx(69_035, rel=1e-3)
    assert np.round(np.mean([each.mean() for each in sizes])) == 69
    assert np.mean(deviations) == pytest.approx(106, rel=0.1)
    assert min(deviations) < 106 < max(deviations)
    assert min(each.min() for each in sizes) >= 10


def test_the_last_client_is_not_given_what_rounding_leaves():
    labels = np.repeat(np.arange(10), 600)
    classes = np.array(
        [np.count_nonzero(_counts(_dealt(_dual(10, 10, 0.5), labels, seed), labels, 10), axis=1) for seed in range(60)]
    )
    # Cut downwards, it held 4 classes more than the others, whose own means over 60 draws lie within 0.5 of each other.
    assert abs(classes[:, -1].mean() - classes[:, :-1].mean()) < 1
