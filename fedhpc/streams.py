"""Keyed random streams: what is drawn depends on what it is for, never on when or where it is drawn.

Philox is counter-based (Salmon et al. 2011): a stream is a key and a counter, so that moving to another stream costs
a copy of four words. A trial's key comes from numpy's SeedSequence over (seed, trial, purpose); the counter's two
upper words name the client and the participation (of privacy's noise: the tree and the node), and its two lower words
count the draws.
"""

from enum import IntEnum
from typing import Any

import numpy as np


class Purpose(IntEnum):
    """What a stream is used for. Values are part of every result: never renumber them."""

    PARTITION = 0
    INITIAL_MODEL = 1
    SELECTION = 2
    LATENCY = 3
    BATCHES = 4
    HELD_OUT = 5
    DROPOUT = 6
    CLIENT_LATENCY = 7
    TIME_LIMIT = 8
    SCHEDULER = 9
    PRIVACY = 10
    PROFILE = 11
    SPEED_CHANGE = 12
    CORESET = 13
    AVAILABILITY = 14
    DEVICE = 15
    FORECAST = 16
    SYNTHETIC_LOSS = 17
    PICTURES = 18


def trial_seed(seed: int, trial: int, purpose: Purpose) -> np.random.SeedSequence:
    """The seed sequence of one purpose within one trial of an experiment with this seed."""
    return np.random.SeedSequence(seed, spawn_key=(trial, int(purpose)))


def sequential(seed: int, trial: int, purpose: Purpose) -> np.random.Generator:
    """A generator that is drawn from in a fixed order (selection of clients, the initial model)."""
    return np.random.Generator(np.random.Philox(trial_seed(seed, trial, purpose)))


class ParticipationStream:
    """One purpose's streams of a trial, keyed by (client, participation).

    ``at(client, participation)`` returns a generator at the start of that stream. It is one object moved from stream
    to stream, so use it before the next call.
    """

    def __init__(self, seed: int, trial: int, purpose: Purpose) -> None:
        self._key = trial_seed(seed, trial, purpose).generate_state(2, np.uint64)
        self._philox = np.random.Philox(key=self._key)
        self._generator = np.random.Generator(self._philox)
        # numpy reads the state that it is given word by word: from lists several times faster than from arrays.
        self._counter = [0, 0, 0, 0]
        words: Any = {"state": {"counter": self._counter, "key": self._key.tolist()}, "buffer": [0, 0, 0, 0]}
        self._state = self._philox.state | words

    def at(self, client: int, participation: int) -> np.random.Generator:
        """The generator of (client, participation), at its first draw."""
        self._counter[2] = participation
        self._counter[3] = client
        self._philox.state = self._state
        return self._generator

    def own(self, client: int, participation: int) -> np.random.Generator:
        """The same stream as an object of its own, for several at a time."""
        counter = np.array([0, 0, participation, client], np.uint64)
        return np.random.Generator(np.random.Philox(counter=counter, key=self._key))
