"""Selection is uniform, without replacement, and remembers only what was used."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.federation.selection import FreeClients


@given(st.integers(1, 30), st.integers(0, 2**32), st.lists(st.booleans(), max_size=200))
def test_taken_clients_are_distinct_and_all_come_back(population: int, seed: int, steps: list[bool]) -> None:
    free = FreeClients(population, np.random.default_rng(seed))
    taken: list[int] = []
    for take in steps:
        if take and free.count:
            taken.append(free.take())
        elif taken:
            free.give_back(taken.pop(len(taken) // 2))
        assert len(set(taken)) == len(taken) == population - free.count
    while free.count:
        taken.append(free.take())
    assert sorted(taken) == list(range(population))


def test_every_pair_is_as_likely_as_every_other() -> None:
    # 20 ordered pairs of 5 clients, 20,000 draws: 1,000 each, standard deviation 31.
    free = FreeClients(5, np.random.default_rng(3))
    pairs: Counter[tuple[int, int]] = Counter()
    for _ in range(20_000):
        pair = free.take(), free.take()
        pairs[pair] += 1
        free.give_back(pair[0])
        free.give_back(pair[1])
    assert len(pairs) == 20
    assert max(abs(count - 1000) for count in pairs.values()) < 5 * 31


def test_a_large_population_costs_nothing_until_it_is_used() -> None:
    free = FreeClients(10**12, np.random.default_rng(0))
    taken = {free.take() for _ in range(100)}
    assert len(taken) == 100
    assert len(free._moved) <= 100


def test_an_empty_list_cannot_be_taken_from() -> None:
    free = FreeClients(1, np.random.default_rng(0))
    free.take()
    assert free.count == 0
    with pytest.raises(IndexError, match="no client is free"):
        free.take()
