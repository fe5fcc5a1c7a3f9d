"""Uniform selection of free clients, in memory that grows with the clients used and not with the population."""

import numpy as np

_BLOCK = 1024


class FreeClients:
    """The clients that are free to be selected: a sparse Fisher-Yates shuffle over 0..population-1.

    Position i of the virtual list holds client i unless ``moved`` says otherwise; the first ``count`` positions are
    the free clients. Taking one and giving one back cost a few dictionary operations.
    """

    def __init__(self, population: int, generator: np.random.Generator) -> None:
        self.count = population
        self._moved: dict[int, int] = {}
        self._generator = generator
        self._uniforms: list[float] = []

    def take(self) -> int:
        """A free client, each with the same probability; it is no longer free. Raises IndexError where none is."""
        if not self.count:
            raise IndexError("no client is free")
        if not self._uniforms:
            self._uniforms = self._generator.random(_BLOCK).tolist()
        chosen = int(self._uniforms.pop() * self.count)
        self.count -= 1
        last = self._moved.pop(self.count, self.count)
        if chosen == self.count:
            return last
        client = self._moved.get(chosen, chosen)
        self._moved[chosen] = last
        return client

    def give_back(self, client: int) -> None:
        """The client is free again."""
        if client != self.count:
            self._moved[self.count] = client
        self.count += 1
