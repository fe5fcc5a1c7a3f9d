import numpy as np
import pytest

from fedhpc.data.settings import Synthetic
from fedhpc.data.sources.synthetic import generate_synthetic

PAIRS = [(0, 0), (0.5, 0.5), (1, 1)]


@pytest.mark.parametrize(("alpha", "beta"), PAIRS)
def test_fedcore_table_1(alpha, beta):
    data = generate_synthetic(Synthetic(source="synthetic", alpha=alpha, beta=beta))
    counts = np.bincount(data.clients[~data.held_out], minlength=30)
    assert len(counts) == 30
    assert counts.sum() == 20_101
    assert round(counts.mean()) == 670
    assert round(counts.std()) == 1148


def test_a_tenth_of_each_client_is_held_out():
    data = generate_synthetic(Synthetic(source="synthetic", alpha=1, beta=1))
    sizes = np.bincount(data.clients)
    held_out = np.bincount(data.clients[data.held_out])
    assert (np.abs(held_out - 0.1 * sizes) < 1).all()


@pytest.mark.parametrize(("alpha", "beta"), PAIRS)
def test_the_draws_are_those_of_the_published_description(alpha, beta):
    # FedProx, section 5.1, one draw after the other, with numpy's own multivariate normal.
    data = generate_synthetic(Synthetic(source="synthetic", alpha=alpha, beta=beta, clients=4, seed=7))
    legacy = np.random.RandomState(7)
    sizes = [int(size) + 50 for size in legacy.lognormal(4, 2, 4)]
    u = [legacy.normal(0, alpha) for _ in range(4)]
    b = [legacy.normal(0, beta) for _ in range(4)]
    v = [[legacy.normal(b[client], 1) for _ in range(60)] for client in range(4)]
    sigma = np.diag([(j + 1) ** -1.2 for j in range(60)])
    for client in range(4):
        model = legacy.normal(u[client], 1, (60, 10))
        bias = legacy.normal(u[client], 1, 10)
        x = legacy.multivariate_normal(v[client], sigma, sizes[client])
        rows = data.clients == client
        np.testing.assert_allclose(data.features[rows], x, atol=1e-5)
        scores = np.exp(x @ model + bias)
        probabilities = scores / scores.sum(axis=1, keepdims=True)
        assert data.labels[rows].tolist() == probabilities.argmax(axis=1).tolist()
