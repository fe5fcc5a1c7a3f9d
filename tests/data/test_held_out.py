import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpc.data.held_out import share_of_all, share_of_each


@given(st.floats(0.01, 0.99), st.integers(0, 300))
@settings(deadline=None)
def test_exactly_the_share_is_held_out(share, examples):
    held_out = share_of_all(share, examples, np.random.default_rng(0))
    assert held_out.shape == (examples,)
    assert held_out.sum() == round(share * examples)


def test_of_each_client_the_share_is_held_out_but_never_its_last_example():
    clients = np.array([2] * 10 + [0] * 5 + [3] + [2] * 10)  # 20 of client 2, 5 of client 0, none of 1, one of 3
    held_out = share_of_each(0.9, clients, np.random.default_rng(0))
    assert np.bincount(clients[held_out], minlength=4).tolist() == [4, 0, 18, 0]  # round(4.5) is 4


def test_which_examples_are_held_out_is_drawn():
    clients = np.repeat([0, 1], 50)
    drawn = [share_of_each(0.5, clients, np.random.default_rng(seed)) for seed in range(2)]
    assert (drawn[0] != drawn[1]).any()
    assert (np.diff(np.flatnonzero(drawn[0])) > 1).any()
