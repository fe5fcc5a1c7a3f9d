"""Which examples, and which random bytes, each step takes."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.clients.batches import Batches
from fedhpc.clients.noise import NoiseSource
from fedhpc.streams import ParticipationStream, Purpose


@given(examples=st.integers(1, 40), size=st.integers(1, 50), seed=st.integers(0, 9))
def test_every_pass_takes_every_example_once(examples: int, size: int, seed: int) -> None:
    batches = Batches(np.random.default_rng(seed), 100, examples, size)
    steps = -(-examples // size)
    for _ in range(3):
        rows, filled = batches.take(steps)
        assert rows.shape == (steps, size)
        # Only a pass's last batch may be short; what fills it up is the client's own first row.
        assert filled.tolist() == [size] * (steps - 1) + [examples - (steps - 1) * size]
        taken = [row for batch, count in zip(rows, filled, strict=True) for row in batch[:count]]
        assert sorted(taken) == list(range(100, 100 + examples))
        assert set(rows.flat) <= set(range(100, 100 + examples))


@given(examples=st.integers(1, 30), size=st.integers(1, 12), cuts=st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_the_same_batches_however_many_are_taken_at_once(examples: int, size: int, cuts: list[int]) -> None:
    whole = Batches(np.random.default_rng(3), 0, examples, size).take(sum(cuts))
    bit_by_bit = Batches(np.random.default_rng(3), 0, examples, size)
    parts = [bit_by_bit.take(cut) for cut in cuts]
    for place in range(2):
        assert np.array_equal(np.concatenate([part[place] for part in parts]), whole[place])


@given(cuts=st.lists(st.integers(1, 5), min_size=1, max_size=5), step_bytes=st.integers(1, 40))
def test_the_same_noise_however_many_steps_are_taken_at_once(cuts: list[int], step_bytes: int) -> None:
    source = NoiseSource(1, 0, torch.device("cpu"))
    whole = source.of(4, 2, step_bytes).take(sum(cuts))
    assert whole.shape == (sum(cuts), step_bytes)
    in_parts = source.of(4, 2, step_bytes)
    assert torch.equal(torch.cat([in_parts.take(cut) for cut in cuts]), whole)


def test_noise_is_uniform_and_every_participations_own() -> None:
    source = NoiseSource(1, 0, torch.device("cpu"))
    drawn = source.of(4, 2, 10_000).take(26)
    counts = torch.bincount(drawn.flatten().int(), minlength=256).double()
    expected = drawn.numel() / 256
    # Chi-squared with 255 degrees of freedom: mean 255, standard deviation 22.6; within five of them.
    assert abs(float(((counts - expected) ** 2 / expected).sum()) - 255) < 5 * 22.6
    for client, participation in ((5, 2), (4, 3)):
        assert not torch.equal(source.of(client, participation, 100).take(1), drawn[:1, :100])
    assert not torch.equal(NoiseSource(1, 1, torch.device("cpu")).of(4, 2, 100).take(1), drawn[:1, :100])


def test_a_stream_of_its_own_is_the_same_stream() -> None:
    streams = ParticipationStream(7, 1, Purpose.BATCHES)
    own, other = streams.own(2**31, 5), streams.own(3, 0)
    first = own.integers(2**62, size=5).tolist()
    assert first == streams.at(2**31, 5).integers(2**62, size=5).tolist()
    assert other.integers(2**62, size=5).tolist() == streams.at(3, 0).integers(2**62, size=5).tolist()
    # Using one leaves the other where it is.
    assert own.integers(2**62) == streams.at(2**31, 5).integers(2**62, size=6)[5]
