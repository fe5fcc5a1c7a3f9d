"""Rank 0's view of the ranks: its own workspace and, where there are any, the training ranks.

With one rank there are no messages and everything runs in this process. The numbers are the same either way.
"""

from collections.abc import Callable, Mapping

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.work import Answer, Evaluate, Evaluated, Train, Trained, Work
from fedhpc.ranks.mailbox import Inbox, Outbox
from fedhpc.ranks.messages import Kind, Message

Versions = Mapping[int, NDArray[np.float32]]

_AHEAD = 2
"""Pieces of work that a training rank holds: one under way and one to go on with."""


class OwnRank:
    """Rank 0's own training."""

    def __init__(self, training: LocalTraining) -> None:
        self._training = training

    def do(self, work: Work, versions: Versions, between_steps: Callable[[], None]) -> Answer:
        """Computes the answer here and now. ``versions`` holds the weights that the work starts from."""
        if isinstance(work, Evaluate):
            return Evaluated(work.version, work.shard, self._training.evaluate(versions[work.version], work.shard))
        update = self._training.update(versions, work.members, between_steps)
        training = self._training
        return Trained(work.makes, work.place, update, training.coreset_error, tuple(training.losses))


class TrainingRanks:
    """The other ranks: who holds which versions and how much work."""

    def __init__(self, world: MPI.Intracomm | None) -> None:
        self._ranks = range(1, world.size) if world is not None else range(0)
        if world is not None:
            self._outbox = Outbox(world)
        self._inboxes = {rank: Inbox(world, rank) for rank in self._ranks if world is not None}
        self._holds: dict[int, set[int]] = {rank: set() for rank in self._ranks}
        self._busy = dict.fromkeys(self._ranks, 0)

    def next_free(self, *, must_be_idle: bool) -> int | None:
        """The rank to give the next piece of work, or None: the least busy, if it has nothing to do or, where it need
        not be idle, no work to go on with."""
        if not self._busy:
            return None
        rank = min(self._busy, key=self._busy.__getitem__)
        return rank if self._busy[rank] < (1 if must_be_idle else _AHEAD) else None

    def give(self, rank: int, work: Work, versions: Versions) -> None:
        """Sends the work, and before it the versions that it starts from, unless the rank has them already."""
        for version in work.versions:
            if version not in self._holds[rank]:
                self._holds[rank].add(version)
                self._outbox.send(Message.of(Kind.VERSION, version, vector=versions[version]), rank)
        if isinstance(work, Train):
            message = Message.to_train(work.makes, work.place, work.members)
        else:
            message = Message.of(Kind.EVALUATE, work.version, work.shard)
        self._outbox.send(message, rank)
        self._busy[rank] += 1

    def forget(self, version: int) -> None:
        """Nobody will need this version any more."""
        for rank, versions in self._holds.items():
            if version in versions:
                versions.remove(version)
                self._outbox.send(Message.of(Kind.FORGET, version), rank)

    def answers(self) -> list[Answer]:
        """What has come back; never waits."""
        found: list[Answer] = []
        for rank, inbox in self._inboxes.items():
            while (message := inbox.receive()) is not None:
                self._busy[rank] -= 1
                found.append(_answer(message))
        return found

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return any(self._busy.values())

    def stop(self) -> None:
        """Ends the training ranks; nothing may be under way."""
        for rank in self._ranks:
            self._outbox.send(Message.of(Kind.STOP), rank)
        if self._ranks:
            self._outbox.flush()


def _answer(message: Message) -> Answer:
    if message.kind is Kind.UPDATE:
        makes, place = message.fields(2)
        return Trained(makes, place, message.vector, message.number, message.losses)
    version, shard = message.fields(2)
    return Evaluated(version, shard, message.counts)
