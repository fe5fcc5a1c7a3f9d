"""What every rank but rank 0 does: receive versions and work, train, answer, and rest when idle."""

from collections import deque

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedhpc.clients.local_training import LocalTraining
from fedhpc.ranks.mailbox import Inbox, Outbox, Rest
from fedhpc.ranks.messages import Kind, Message


class TrainingRank:
    """The loop of one rank. Messages are taken in even while it trains, so that the next version is already there."""

    def __init__(self, world: MPI.Intracomm, training: LocalTraining) -> None:
        self._training = training
        self._inbox = Inbox(world, 0)
        self._outbox = Outbox(world)
        self._versions: dict[int, NDArray[np.float32]] = {}
        self._work: deque[Message] = deque()
        self._stopped = False

    def serve(self) -> None:
        """Works until rank 0 says stop."""
        rest = Rest()
        while not self._stopped:
            self._take_in()
            if self._work:
                self._outbox.send(self._answer(self._work.popleft()), 0)
                rest.over()
            else:
                rest.a_moment()
        self._outbox.flush()

    def _take_in(self) -> None:
        """Called between steps too, so that neither what has come nor what has gone holds anything up."""
        self._outbox.let_go()
        while (message := self._inbox.receive()) is not None:
            match message.kind:
                case Kind.VERSION:
                    self._versions[message.fields(1)[0]] = message.vector
                case Kind.FORGET:
                    del self._versions[message.fields(1)[0]]
                case Kind.STOP:
                    self._stopped = True
                case _:
                    self._work.append(message)

    def _answer(self, work: Message) -> Message:
        if work.kind is Kind.EVALUATE:
            version, shard = work.fields(2)
            return Message.of_counts(version, shard, self._training.evaluate(self._versions[version], shard))
        update = self._training.update(self._versions, work.members, self._take_in)
        makes, place = work.fields(2)
        return Message.of_update(makes, place, update, self._training.coreset_error, self._training.losses)
