import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.clients.batches import Batches

SIZES = st.integers(1, 9)


def order(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


@given(first=st.integers(0, 50), examples=st.integers(1, 25), size=SIZES, passes=st.integers(1, 4))
def test_every_pass_takes_every_row_once(first: int, examples: int, size: int, passes: int) -> None:
    batches = -(-examples // size)
    rows, filled = Batches(order(), first, examples, size).take(batches * passes)
    for done in range(passes):
        own = slice(done * batches, (done + 1) * batches)
        assert filled[own].tolist() == [size] * (batches - 1) + [examples - size * (batches - 1)]
        taken = np.concatenate([row[:count] for row, count in zip(rows[own], filled[own], strict=True)])
        assert sorted(taken) == list(range(first, first + examples))
        last = rows[own][-1, filled[own][-1] :]
        assert (last == first).all()


@given(examples=st.integers(1, 25), size=SIZES, takes=st.lists(st.integers(0, 7), min_size=1, max_size=8))
def test_the_same_batches_however_many_are_taken_at_once(examples: int, size: int, takes: list[int]) -> None:
    whole = Batches(order(), 3, examples, size).take(sum(takes))
    pieces = Batches(order(), 3, examples, size)
    taken = [pieces.take(steps) for steps in takes]
    assert [len(rows) for rows, _ in taken] == takes
    for place in range(2):
        assert np.array_equal(np.concatenate([piece[place] for piece in taken]), whole[place])


@given(examples=st.integers(1, 25), size=SIZES, seed=st.integers(0, 9))
def test_a_pass_is_one_permutation_of_the_stream_and_the_next_a_fresh_one(examples: int, size: int, seed: int) -> None:
    batches = -(-examples // size)
    rows, filled = Batches(order(seed), 7, examples, size).take(2 * batches)
    stream = order(seed)
    expected = [[7 + row for row in batch] for _ in range(2) for batch in chunks(stream.permutation(examples), size)]
    assert [row[:count].tolist() for row, count in zip(rows, filled, strict=True)] == expected


def chunks(rows: np.ndarray, size: int) -> list[list[int]]:
    return [rows[first : first + size].tolist() for first in range(0, len(rows), size)]
