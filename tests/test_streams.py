"""Streams are numpy's Philox at the counter that names them, whatever was drawn before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.streams import ParticipationStream, Purpose

WORDS = st.integers(0, 2**64 - 1)
KEYS = st.tuples(st.integers(0, 10**8), st.integers(0, 10**6))


def test_philox_gives_its_authors_known_answers() -> None:
    # Salmon et al. 2011, the known-answer vectors of Philox 4x64 with ten rounds: all bits zero. numpy counts on
    # before it draws, so that the block of counter 0 is drawn from counter 2**256 - 1.
    most = 2**64 - 1
    zero = np.random.Philox(counter=[most] * 4, key=[0, 0]).random_raw(4)
    assert [hex(word) for word in zero] == [
        "0x16554d9eca36314c",
        "0xdb20fe9d672d0fdc",
        "0xd7e772cee186176b",
        "0x7e68b68aec7ba23b",
    ]


@given(keys=st.lists(KEYS, min_size=1, max_size=4))
def test_a_stream_of_its_own_is_the_moved_one(keys: list[tuple[int, int]]) -> None:
    streams = ParticipationStream(11, 3, Purpose.BATCHES)
    own = [streams.own(*key) for key in keys]
    for key, stream in zip(keys, own, strict=True):
        assert np.array_equal(
            stream.integers(0, 2**64, 9, np.uint64), streams.at(*key).integers(0, 2**64, 9, np.uint64)
        )
        assert np.array_equal(stream.permutation(7), np.random.Generator(moved(*key, 9)).permutation(7))


def moved(client: int, participation: int, draws: int) -> np.random.Philox:
    """The documented stream, some words on."""
    key = np.random.SeedSequence(11, spawn_key=(3, 4)).generate_state(2, np.uint64)
    philox = np.random.Philox(key=key, counter=[0, 0, participation, client])
    philox.random_raw(draws)
    return philox


def test_streams_differ_between_seeds_trials_purposes_clients_and_participations() -> None:
    first = {
        ParticipationStream(seed, trial, purpose).own(client, participation).bytes(16)
        for seed, trial in ((0, 0), (0, 1), (1, 0))
        for purpose in (Purpose.LATENCY, Purpose.BATCHES, Purpose.DROPOUT)
        for client, participation in ((0, 0), (0, 1), (1, 0), (7, 1))
    }
    assert len(first) == 3 * 3 * 4


def test_streams_that_are_drawn_from_in_turn_do_not_disturb_each_other() -> None:
    streams = ParticipationStream(0, 0, Purpose.DROPOUT)
    one, other = streams.own(1, 0), streams.own(2, 0)
    mixed = [one.random(), other.random(), one.random(), other.random()]
    alone = [*streams.own(1, 0).random(2), *streams.own(2, 0).random(2)]
    assert mixed == [alone[0], alone[2], alone[1], alone[3]]


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
