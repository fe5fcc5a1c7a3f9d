"""Selection is uniform, without replacement, and remembers only what was used."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.federation.selection import FreeByExamples, FreeClients


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


@given(st.integers(1, 30), st.integers(0, 2**32), st.lists(st.sampled_from(["take", "back", "restart"]), max_size=200))
def test_nobody_takes_part_twice_in_an_epoch(population: int, seed: int, steps: list[str]) -> None:
    free = FreeClients(population, np.random.default_rng(seed), once_an_epoch=True)
    under_way: list[int] = []
    done: list[int] = []  # of this epoch: those whose update falls into it
    for step in steps:
        if step == "take" and free.count:
            under_way += free.take(1)
        elif step == "back" and under_way:
            done.append(under_way.pop(len(under_way) // 2))
            free.give_back([done[-1]])
        elif step == "restart":
            free.restart()
            done = []
        # Everybody is in one place only.
        assert len({*under_way, *done}) == len(under_way) + len(done) == population - free.count
    under_way += free.take(free.count)
    assert sorted(under_way + done) == list(range(population))


@given(st.integers(1, 60), st.integers(0, 2**32), st.integers(1, 60))
def test_an_epoch_of_takes_is_everybody_exactly_once(population: int, seed: int, at_once: int) -> None:
    free = FreeClients(population, np.random.default_rng(seed), once_an_epoch=True)
    for _ in range(3):
        epoch: list[int] = []
        while free.count:
            taken = free.take(min(at_once, free.count))
            free.give_back(taken)
            epoch += taken
        assert sorted(epoch) == list(range(population))
        free.restart()


def test_who_is_under_way_at_a_restart_rests_in_the_new_epoch() -> None:
    free = FreeClients(3, np.random.default_rng(0), once_an_epoch=True)
    early, late = free.take(2)
    free.give_back([early])
    free.restart()
    assert free.count == 2  # early, and the one never taken
    free.give_back([late])
    assert free.count == 2
    assert late not in free.take(2)
    free.restart()
    assert free.take(1) == [late]


def test_every_order_of_an_epoch_is_as_likely_as_every_other() -> None:
    # 6 orders of 3 clients, 12,000 epochs: 2,000 each, standard deviation 41.
    free, orders = FreeClients(3, np.random.default_rng(5), once_an_epoch=True), Counter[tuple[int, ...]]()
    for _ in range(12_000):
        order = []
        for _ in range(3):
            order += free.take(1)
            free.give_back(order[-1:])
        orders[tuple(order)] += 1
        free.restart()
    assert len(orders) == 6
    assert max(abs(count - 2000) for count in orders.values()) < 5 * 41


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.8])
def test_a_sample_draws_every_client_by_itself(probability: float) -> None:
    # A set of k of 4 clients has the probability q^k (1 - q)^(4-k): no client's draw says anything of another's.
    draws = 20_000
    free, sets = FreeClients(4, np.random.default_rng(9)), Counter[frozenset[int]]()
    for _ in range(draws):
        sample = free.sample(probability)
        assert len(set(sample)) == len(sample) == 4 - free.count
        sets[frozenset(sample)] += 1
        free.give_back(sample)
    for members in range(16):
        chosen = frozenset(client for client in range(4) if members >> client & 1)
        expected = draws * probability ** len(chosen) * (1 - probability) ** (4 - len(chosen))
        assert abs(sets[chosen] - expected) < 5 * np.sqrt(expected) + 1


def test_nobody_and_everybody_can_be_sampled() -> None:
    free = FreeClients(5, np.random.default_rng(0))
    assert free.sample(0.0) == []
    assert sorted(free.sample(1.0)) == [0, 1, 2, 3, 4]
    assert free.sample(1.0) == []


def test_samples_and_epochs_of_ten_million_clients_remember_only_those_used() -> None:
    tracemalloc.start()
    free = FreeClients(10**7, np.random.default_rng(0), once_an_epoch=True)
    for _ in range(3):
        for _ in range(10):
            free.give_back(free.sample(1e-5))
        free.restart()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Some 1,000 an epoch. A byte for each client would be ten million.
    assert peak < 10**6
    assert free.count == 10**7


def test_everybody_is_taken_for_good() -> None:
    free = FreeClients(4, np.random.default_rng(0))
    assert free.take_everybody() == [0, 1, 2, 3]
    free.give_back([2, 2, 0])
    assert (free.count, free.anybody) == (0, False)


@given(st.integers(1, 30), st.data())
def test_who_is_retired_is_never_drawn_again(population: int, data: st.DataObject) -> None:
    free = FreeClients(population, np.random.default_rng(0))
    taken = free.take(data.draw(st.integers(0, population)))
    living = set(range(population))
    for client in data.draw(st.sets(st.integers(0, population - 1))):
        free.retire(client)
        living.discard(client)
        assert free.count == len(living - set(taken))
    free.give_back(taken)
    assert sorted(free.take(free.count)) == sorted(living)


def test_by_examples_pairs_come_as_in_drawing_one_after_the_other() -> None:
    # P(first, second) = w1/6 w2/(6 - w1) with weights 1, 2 and 3; 20,000 draws.
    free, pairs = FreeByExamples(np.array([1, 2, 3, 0]), np.random.default_rng(4)), Counter[tuple[int, ...]]()
    draws = 20_000
    for _ in range(draws):
        taken = free.take(2)
        pairs[tuple(taken)] += 1
        free.give_back(taken)
    weights = {0: 1, 1: 2, 2: 3}
    for first, own in weights.items():
        for second, other in weights.items():
            if first != second:
                chance = own / 6 * other / (6 - own)
                error = (draws * chance * (1 - chance)) ** 0.5
                assert abs(pairs[first, second] - draws * chance) < 5 * error
    assert sum(pairs.values()) == draws


def test_by_examples_takes_only_who_is_free_and_holds_some() -> None:
    free = FreeByExamples(np.array([5, 0, 5, 5]), np.random.default_rng(4))
    taken = free.take(2)
    assert free.count == 1
    (last,) = free.take(1)
    assert sorted([*taken, last]) == [0, 2, 3]
    with pytest.raises(IndexError, match="1 clients are wanted and 0 with an example are free"):
        free.take(1)
    free.give_back([last])
    assert free.take(1) == [last]
