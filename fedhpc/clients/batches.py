"""Which examples a client trains on at each step: a fresh order at every pass, from the participation's own stream."""

import numpy as np
from numpy.typing import NDArray


class Batches:
    """A client's mini-batches, one after another. The client's rows are ``first`` to ``first + examples - 1``."""

    def __init__(self, order: np.random.Generator, first: int, examples: int, size: int) -> None:
        self._order, self._first, self._examples, self._size = order, first, examples, size
        self._rows = np.empty((0, size), np.int64)
        self._filled = np.empty(0, np.int64)

    def take(self, steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of the next mini-batches, int64 [steps, size], and how many of each count, int64 [steps].

        A pass's last mini-batch may be short; it is filled up with the client's first row, which does not count.
        """
        passes = [(self._rows, self._filled)]
        ready = len(self._filled)
        while ready < steps:
            passes.append(self._next_pass())
            ready += len(passes[-1][1])
        rows = np.concatenate([rows for rows, _ in passes])
        filled = np.concatenate([filled for _, filled in passes])
        self._rows, self._filled = rows[steps:], filled[steps:]
        return rows[:steps], filled[:steps]

    def _next_pass(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        batches = -(-self._examples // self._size)
        rows = np.zeros(batches * self._size, np.int64)
        rows[: self._examples] = self._order.permutation(self._examples)
        filled = np.full(batches, self._size)
        filled[-1] = self._examples - (batches - 1) * self._size
        return rows.reshape(batches, self._size) + self._first, filled
