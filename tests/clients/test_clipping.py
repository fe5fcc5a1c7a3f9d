import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.clients.clipping import clip_factors


def test_by_hand() -> None:
    # Lengths 5, 1, 0 and 2.5; at most 2.5.
    deltas = torch.tensor([[3.0, -4.0], [0.0, 1.0], [0.0, 0.0], [1.5, 2.0]])
    assert clip_factors(deltas, 2.5).tolist() == [0.5, 1.0, 1.0, 1.0]


def test_squares_beyond_float32_are_added_up() -> None:
    # Of length 5e30.
    assert np.isclose(clip_factors(torch.tensor([[3e30, 4e30]]), 5e29).item(), 0.1, rtol=1e-6)


@given(seed=st.integers(0, 99), clients=st.integers(1, 6), parameters=st.integers(1, 500))
def test_a_client_is_clipped_as_it_is_alone(seed: int, clients: int, parameters: int) -> None:
    deltas = torch.from_numpy(np.random.default_rng(seed).normal(size=(clients, parameters)).astype(np.float32))
    together = clip_factors(deltas, 1.0)
    for row in range(clients):
        length = np.sqrt((deltas[row].double().numpy() ** 2).sum())
        assert np.isclose(together[row].item(), min(1, 1 / length), rtol=1e-12)
