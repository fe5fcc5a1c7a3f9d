"""What a silo does under a clock: receives its work, trains on its own data at its own speed, and answers.

Between steps, and while it has nothing to do, it sends a sign of life now and then; a silo that no longer gets there,
whatever the reason, is silent.
"""

import time
from collections import deque

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.work import Member
from fedhpc.ranks.mailbox import Inbox, Outbox, Rest
from fedhpc.ranks.messages import Kind, Message

_LONGEST_SECONDS_BETWEEN_SIGNS = 1.0
_SIGNS_IN_A_SILENCE = 10
_PIECE_OF_SLEEP = 0.05
_STEPS_TO_PROFILE, _TRIES_TO_PROFILE = 5, 4


class _Abandoned(Exception):
    """Rank 0 wants the work no more that is under way."""


class Silo:
    """The loop of one silo. ``slowdown``: a step takes so many times as long as it would, by sleep in proportion to its
    own time. ``silence``: the seconds after which rank 0 gives a silent silo up."""

    def __init__(self, world: MPI.Intracomm, training: LocalTraining, slowdown: float, silence: float) -> None:
        self._training, self._slowdown, self._client = training, slowdown, world.rank - 1
        self._inbox, self._outbox = Inbox(world, 0), Outbox(world)
        self._between_signs = min(silence / _SIGNS_IN_A_SILENCE, _LONGEST_SECONDS_BETWEEN_SIGNS)
        self._next_sign = 0.0
        self._versions: dict[int, NDArray[np.float32]] = {}
        self._work: deque[tuple[int, Member]] = deque()
        self._under_way: int | None = None
        self._is_abandoned = self._stopped = self._all_live = False
        self._step_began: float | None = None

    def profile(self, weights: NDArray[np.float32]) -> float:
        """Seconds a mini-batch, slowed down: of some tries the fastest, which nothing else held up."""
        seconds = []
        for _ in range(_TRIES_TO_PROFILE):
            began = time.perf_counter()
            self._training.update({0: weights}, [Member(0, self._client, 0, _STEPS_TO_PROFILE, 1.0)], lambda: None)
            seconds.append(time.perf_counter() - began)
        return self._slowdown * min(seconds) / _STEPS_TO_PROFILE

    def serve(self) -> bool:
        """Works until rank 0 says stop; whether all silos live then."""
        rest = Rest()
        while not self._stopped:
            self._take_in()
            if self._work:
                self._answer(*self._work.popleft())
                rest.over()
            else:
                rest.a_moment()
        self._outbox.send(Message.of(Kind.SIGN, 1), 0)
        if self._all_live:
            self._outbox.flush()  # rank 0 receives it all
        return self._all_live

    def _take_in(self) -> None:
        now = time.perf_counter()
        if now >= self._next_sign:
            self._next_sign = now + self._between_signs
            self._outbox.send(Message.of(Kind.SIGN), 0)
        self._outbox.let_go()
        while (message := self._inbox.receive()) is not None:
            match message.kind:
                case Kind.VERSION:
                    self._versions[message.fields(1)[0]] = message.vector
                case Kind.FORGET:
                    del self._versions[message.fields(1)[0]]
                case Kind.TRAIN:
                    number, _ = message.fields(2)
                    self._work.append((number, message.members[0]))
                case Kind.ABANDON:
                    self._abandon(message.fields(1)[0])
                case Kind.STOP:
                    self._stopped, self._all_live = True, bool(message.fields(1)[0])
                case _:
                    raise AssertionError(f"a silo is sent no {message.kind.name}")

    def _abandon(self, number: int) -> None:
        if number == self._under_way:
            self._is_abandoned = True
        self._work = deque(work for work in self._work if work[0] != number)

    def _answer(self, number: int, member: Member) -> None:
        self._under_way, self._is_abandoned, self._step_began = number, False, None
        try:
            if member.steps:
                update = self._training.update(self._versions, [member], self._between_steps)
                self._sleep_off()
            else:
                update = np.zeros_like(self._versions[member.version])
        except _Abandoned:
            return
        finally:
            self._under_way = None
        self._outbox.send(Message.of(Kind.UPDATE, number, 0, vector=update), 0)

    def _between_steps(self) -> None:
        self._sleep_off()
        self._look_up()
        self._step_began = time.perf_counter()

    def _look_up(self) -> None:
        self._take_in()
        if self._is_abandoned or self._stopped:
            raise _Abandoned

    def _sleep_off(self) -> None:
        """Makes the step that has just ended as slow as it is to be."""
        if self._step_began is None:
            return
        now = time.perf_counter()
        until = now + (self._slowdown - 1) * (now - self._step_began)
        while (left := until - time.perf_counter()) > 0:
            time.sleep(min(left, _PIECE_OF_SLEEP))
            self._look_up()
