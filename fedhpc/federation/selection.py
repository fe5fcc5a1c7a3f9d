"""Selection of free clients: uniformly, in memory that grows with the clients used and not with the population; by the
examples that they hold; or by whoever is shown which of them are free."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.weighted_draw import drawn_by_weight

_BLOCK = 1024


class FreeClients:
    """The clients that are free to be selected: a sparse Fisher-Yates shuffle over 0..population-1.

    Position i of the virtual list holds client i unless ``moved`` says otherwise; the first ``count`` positions are
    the free clients. Taking one and giving one back cost a few dictionary operations.

    Where a client takes part ``once_an_epoch`` (DP-FTRL: once a tree), one that is given back rests until the epoch
    in which it was given back ends.
    """

    def __init__(self, population: int, generator: np.random.Generator, *, once_an_epoch: bool = False) -> None:
        self.count = population
        self.once_an_epoch = once_an_epoch
        self._for_good = False
        self._resting: list[int] = []
        self._retired: set[int] = set()
        self._moved: dict[int, int] = {}
        self._generator = generator
        self._uniforms: list[float] = []

    @property
    def anybody(self) -> bool:
        """Whether somebody can be taken, if need be after a ``restart()``."""
        return bool(self.count or self._resting)

    def take(self, count: int) -> list[int]:
        """``count`` free clients, drawn uniformly without replacement; they are no longer free.

        Raises IndexError where there are fewer.
        """
        if count > self.count:
            raise IndexError(f"{count} clients are wanted and {self.count} are free")
        taken = []
        left, moved, uniforms = self.count, self._moved, self._uniforms
        for _ in range(count):
            if not uniforms:
                uniforms += self._generator.random(_BLOCK).tolist()
            chosen = int(uniforms.pop() * left)
            left -= 1
            last = moved.pop(left, left)
            if chosen == left:
                taken.append(last)
            else:
                taken.append(moved.get(chosen, chosen))
                moved[chosen] = last
        self.count = left
        return taken

    def sample(self, probability: float) -> list[int]:
        """Every free client independently with that probability (Poisson sampling); they are no longer free.

        So many uniformly without replacement, where their number is binomial, is the same in distribution.
        """
        return self.take(int(self._generator.binomial(self.count, probability)))

    def take_everybody(self) -> list[int]:
        """All clients, in their order, for good: none is free any more, whoever is given back. It is for schedulers
        that let all clients train at all times."""
        self._for_good = True
        clients, self.count = list(range(self.count)), 0
        return clients

    def give_back(self, clients: Iterable[int]) -> None:
        """The clients are free again; once an epoch: from the next ``restart()`` on."""
        if self._for_good:
            return
        if self.once_an_epoch:
            self._resting.extend(clients)
        else:
            self._free(clients)

    def retire(self, client: int) -> None:
        """The client is never free again, whether it is now or is taken and will be given back. Takes time that grows
        with the number of free clients."""
        self._retired.add(client)
        for place in range(self.count):
            if self._moved.get(place, place) == client:
                self.count -= 1
                last = self._moved.pop(self.count, self.count)
                if place != self.count:
                    self._moved[place] = last
                return

    def restart(self) -> None:
        """A new epoch: all that have been given back are free. Who is still taken will rest in the new epoch."""
        resting, self._resting = self._resting, []
        self._free(resting)

    def _free(self, clients: Iterable[int]) -> None:
        count, moved = self.count, self._moved
        for client in clients:
            if client in self._retired:
                continue
            if client != count:
                moved[count] = client
            count += 1
        self.count = count


class MarkedClients(FreeClients):
    """Clients that are marked as free, for those who choose by more than chance.

    ``is_free``: bool [clients], whom to begin with; it is kept up to date."""

    def __init__(self, is_free: NDArray[np.bool_], generator: np.random.Generator) -> None:
        super().__init__(int(np.count_nonzero(is_free)), generator)
        self.is_free = is_free

    def take_these(self, clients: NDArray[np.int64]) -> None:
        """Clients that are free are so no longer; each is named once."""
        self.is_free[clients] = False
        self.count -= len(clients)

    def _free(self, clients: Iterable[int]) -> None:
        freed = list(clients)
        self.is_free[freed] = True
        self.count += len(freed)


class FreeByExamples(MarkedClients):
    """Clients drawn one after another without replacement, each of those that are free with a probability proportional
    to the examples that it holds (FedCore, Algorithm 1, line 3). ``examples``: int64 [clients]."""

    def __init__(self, examples: NDArray[np.int64], generator: np.random.Generator) -> None:
        super().__init__(examples > 0, generator)
        self._examples = examples

    def take(self, count: int) -> list[int]:
        """``count`` free clients, in the order in which they were drawn; they are no longer free.

        Raises IndexError where there are fewer who hold an example.
        """
        if count > self.count:
            raise IndexError(f"{count} clients are wanted and {self.count} with an example are free")
        free = np.flatnonzero(self.is_free)
        taken = free[drawn_by_weight(self._generator, self._examples[free], count)]
        self.take_these(taken)
        return list(map(int, taken))
