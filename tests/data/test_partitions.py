import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedhpc.data.partitions import dirichlet, iid
from fedhpc.data.settings import IID, Dirichlet
from fedhpc.streams import Purpose, sequential

labels_of_examples = arrays(np.int64, st.integers(0, 200), elements=st.integers(0, 4))
partitions = st.one_of(
    st.builds(IID, kind=st.just("iid"), clients=st.integers(1, 30)),
    st.builds(Dirichlet, kind=st.just("dirichlet"), clients=st.integers(1, 30), concentration=st.floats(1e-300, 1e12)),
)


def _dealt(partition, labels, seed=0):
    deal = iid if partition.kind == "iid" else dirichlet
    return deal(partition, labels, sequential(seed, 0, Purpose.PARTITION))


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


def test_another_seed_deals_otherwise():
    labels = np.arange(100) % 5
    for partition in (IID(kind="iid", clients=4), Dirichlet(kind="dirichlet", clients=4, concentration=1)):
        assert (_dealt(partition, labels, 0) != _dealt(partition, labels, 1)).any()


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
