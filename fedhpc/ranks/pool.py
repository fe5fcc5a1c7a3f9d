"""Rank 0's view of the ranks: its own workspace and, where there are any, the training ranks.

With one rank there are no messages and everything runs in this process. The numbers are the same either way.
"""

from collections.abc import Callable

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.work import Answer, Evaluate, Evaluated, ShardCounts, Train, Trained, Work
from fedhpc.ranks.mailbox import Inbox, Outbox
from fedhpc.ranks.messages import Kind, Message

_AHEAD = 2
"""Pieces of work that a training rank holds: one under way and one to go on with."""


class OwnRank:
    """Rank 0's own training."""

    def __init__(self, training: LocalTraining) -> None:
        self._training = training

    def do(self, work: Work, weights: NDArray[np.float32], between_steps: Callable[[], None]) -> Answer:
        """Computes the answer here and now."""
        if isinstance(work, Evaluate):
            return Evaluated(work.version, work.shard, self._training.evaluate(weights, work.shard))
        delta = self._training.client_update(weights, work.client, work.participation, work.steps, between_steps)
        return Trained(work.number, delta)


class TrainingRanks:
    """The other ranks: who holds which versions and how much work."""

    def __init__(self, world: MPI.Intracomm | None, weights: int) -> None:
        self._ranks = range(1, world.size) if world is not None else range(0)
        if world is not None:
            self._outbox = Outbox(world)
        self._inboxes = {rank: Inbox(world, rank, weights) for rank in self._ranks if world is not None}
        self._holds: dict[int, set[int]] = {rank: set() for rank in self._ranks}
        self._busy = dict.fromkeys(self._ranks, 0)

    def next_free(self, *, must_be_idle: bool) -> int | None:
        """The rank to give the next piece of work, or None: the least busy, if it has nothing to do or, where it need
        not be idle, no work to go on with."""
        if not self._busy:
            return None
        rank = min(self._busy, key=self._busy.__getitem__)
        return rank if self._busy[rank] < (1 if must_be_idle else _AHEAD) else None

    def give(self, rank: int, work: Work, weights: NDArray[np.float32]) -> None:
        """Sends the work, and before it the version, unless the rank has that already."""
        if work.version not in self._holds[rank]:
            self._holds[rank].add(work.version)
            self._outbox.send(Message.of(Kind.VERSION, work.version, vector=weights), rank)
        if isinstance(work, Train):
            message = Message.of(Kind.TRAIN, work.number, work.version, work.client, work.participation, work.steps)
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

    def stop(self) -> None:
        """Ends the training ranks; nothing may be under way."""
        for rank in self._ranks:
            self._outbox.send(Message.of(Kind.STOP), rank)
        if self._ranks:
            self._outbox.flush()
        for inbox in self._inboxes.values():
            inbox.close()


def _answer(message: Message) -> Answer:
    if message.kind is Kind.UPDATE:
        return Trained(message.fields(1)[0], message.vector)
    version, shard, correct, straggler_correct = message.fields(4)
    return Evaluated(version, shard, ShardCounts(correct, straggler_correct, float(message.numbers[0])))
