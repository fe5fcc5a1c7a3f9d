"""Streams are numpy's Philox at the counter that names them, whatever was drawn before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.streams import ParticipationStream, Purpose

WORDS = st.integers(0, 2**64 - 1)


@given(WORDS, WORDS, st.integers(0, 9))
def test_a_stream_is_philox_at_the_counter_of_client_and_participation(
    client: int, participation: int, drawn_before: int
) -> None:
    stream = ParticipationStream(11, 2, Purpose.LATENCY)
    # 32-bit draws leave half a word behind, and any draw a part of a block of four words.
    stream.at(7, 7).integers(2**32, size=drawn_before, dtype=np.uint32)
    generator = stream.at(client, participation)
    key = np.random.SeedSequence(11, spawn_key=(2, 3)).generate_state(2, np.uint64)
    counter = np.array([0, 0, participation, client], np.uint64)
    expected = np.random.Generator(np.random.Philox(key=key, counter=counter))
    for draw in ("random", "standard_normal", "standard_exponential"):
        assert [getattr(generator, draw)() for _ in range(3)] == [getattr(expected, draw)() for _ in range(3)]
    assert generator.integers(2**32, dtype=np.uint32) == expected.integers(2**32, dtype=np.uint32)
