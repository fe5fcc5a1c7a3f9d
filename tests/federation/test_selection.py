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
            taken += free.take(1)
        elif taken:
            free.give_back([taken.pop(len(taken) // 2)])
        assert len(set(taken)) == len(taken) == population - free.count
    while free.count:
        taken += free.take(1)
    assert sorted(taken) == list(range(population))


def test_every_pair_is_as_likely_as_every_other() -> None:
    # 20 ordered pairs of 5 clients, 20,000 draws: 1,000 each, standard deviation 31.
    free = FreeClients(5, np.random.default_rng(3))
    pairs: Counter[tuple[int, int]] = Counter()
    for _ in range(20_000):
        first, second = free.take(2)
        pairs[first, second] += 1
        free.give_back([first, second])
    assert len(pairs) == 20
    assert max(abs(count - 1000) for count in pairs.values()) < 5 * 31


def test_a_large_population_costs_nothing_until_it_is_used() -> None:
    free = FreeClients(10**12, np.random.default_rng(0))
    assert len(set(free.take(100))) == 100
    assert len(free._moved) <= 100


@given(st.integers(1, 60), st.integers(0, 2**32), st.data())
def test_taking_many_at_once_is_taking_one_after_the_other(population: int, seed: int, data: st.DataObject) -> None:
    at_once, singly = (FreeClients(population, np.random.default_rng(seed)) for _ in range(2))
    for _ in range(10):
        count = data.draw(st.integers(0, at_once.count))
        taken = at_once.take(count)
        assert taken == [client for _ in range(count) for client in singly.take(1)]
        back = taken[::2]
        at_once.give_back(back)
        for client in back:
            singly.give_back([client])


def test_more_than_are_free_cannot_be_taken() -> None:
    free = FreeClients(3, np.random.default_rng(0))
    free.take(2)
    with pytest.raises(IndexError, match="2 clients are wanted and 1 are free"):
        free.take(2)
    assert free.count == 1
