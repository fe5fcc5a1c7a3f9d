"""Sending without waiting, receiving without blocking.

A blocked receive burns a whole core in every MPI, and a rank that waits may share its core with one that trains. So
messages are looked for and their arrival tested, and an idle rank spins for a moment and then sleeps.
"""

import time

from mpi4py import MPI

from fedhpc.ranks.messages import TAG, Message

_SPIN_SECONDS = 50e-6
_LONGEST_SLEEP_SECONDS = 5e-3
_SLEEP_SHARE = 1 / 10


class Outbox:
    """Messages on their way; each is kept until MPI is done with it."""

    def __init__(self, world: MPI.Intracomm) -> None:
        self._world = world
        self._under_way: list[tuple[MPI.Request, Message]] = []

    def send(self, message: Message, rank: int) -> None:
        """Starts sending; the message must not change any more."""
        self.let_go()
        self._under_way.append((self._world.Isend(message.header, dest=rank, tag=TAG), message))
        if message.body.size:
            self._under_way.append((self._world.Isend(message.body, dest=rank, tag=TAG), message))

    def let_go(self) -> None:
        """Drops the messages that have been handed over."""
        self._under_way = [sent for sent in self._under_way if not sent[0].Test()]

    def flush(self) -> None:
        """Returns when all messages have been handed over."""
        rest = Rest()
        while self._under_way:
            self.let_go()
            rest.a_moment()


class Inbox:
    """Messages from one rank, in their order."""

    def __init__(self, world: MPI.Intracomm, rank: int) -> None:
        self._world, self._rank = world, rank
        self._arriving: tuple[MPI.Request, Message] | None = None

    def receive(self) -> Message | None:
        """The next message, if it is whole, or None; never waits."""
        if self._arriving is None:
            found = self._world.Improbe(self._rank, TAG)
            if found is None:
                return None
            message = Message.empty()
            self._arriving = (found.Irecv(message.header), message)
        request, message = self._arriving
        if not request.Test():
            return None
        if message.lacks_body:
            # Messages of one sender do not overtake each other: what comes next is the body.
            message.make_room()
            self._arriving = (self._world.Irecv(message.body, self._rank, TAG), message)
            if not self._arriving[0].Test():
                return None
        self._arriving = None
        return message


class Rest:
    """How an idle rank waits: hot for 50 microseconds, then asleep a tenth of the time waited, 5 ms at most.

    So a wait overshoots by a tenth at most, and a long one costs a hundredth of a core: a wake-up that finds its caches
    cold, 200 times a second."""

    def __init__(self) -> None:
        self.over()

    def over(self) -> None:
        """There was something to do: the next wait begins hot."""
        self._since = time.perf_counter()

    def a_moment(self) -> None:
        """Waits a little."""
        waited = time.perf_counter() - self._since
        if waited > _SPIN_SECONDS:
            time.sleep(min(waited * _SLEEP_SHARE, _LONGEST_SLEEP_SECONDS))
