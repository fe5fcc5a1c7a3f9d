"""Rank 0's view of the silos: rank r is client r - 1, on a host of its own perhaps, and may be gone at any moment."""

import time

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedhpc.clients.work import Member
from fedhpc.federation.updates import Participation
from fedhpc.ranks.mailbox import Inbox, Outbox, Rest
from fedhpc.ranks.messages import Kind, Message

Vector = NDArray[np.float32]

_SECONDS_TO_HAND_OVER = 10.0
_OWN_ABSENCE = 1.0
"""Seconds between two looks from which on rank 0 itself was away, and may blame nobody for it."""


class Silos:
    """Who holds which version, and when each was last heard of. A send never waits: a silo that is gone takes nothing,
    and what is under way to it is kept until the end."""

    def __init__(self, world: MPI.Intracomm, silence: float) -> None:
        self._silence = silence
        self._ranks = {client: client + 1 for client in range(world.size - 1)}
        self._living = set(self._ranks)
        self._outboxes = {client: Outbox(world) for client in self._ranks}
        self._inboxes = {client: Inbox(world, rank) for client, rank in self._ranks.items()}
        self._holds: dict[int, int] = {}
        self._departed: set[int] = set()
        now = time.perf_counter()
        self._heard = dict.fromkeys(self._ranks, now)
        self._looked = now
        self._excused: set[int] = set()  # for an absence of rank 0's, and not heard of since: nobody is twice

    def give(self, update: Participation, weights: Vector) -> None:
        """Sends the client its work and, unless it has them, the weights to start from; it forgets the others."""
        client, version = update.client, update.version
        held = self._holds.get(client)
        if held != version:
            if held is not None:
                self._send(client, Message.of(Kind.FORGET, held))
            self._send(client, Message.of(Kind.VERSION, version, vector=weights))
            self._holds[client] = version
        member = Member(version, client, update.participation, update.steps, 1.0)
        self._send(client, Message.to_train(update.number, 0, [member]))

    def abandon(self, update: Participation) -> None:
        """Tells the client to stop working on this."""
        self._send(update.client, Message.of(Kind.ABANDON, update.number))

    def answers(self) -> list[tuple[int, int, Vector]]:
        """What has come, as (client, number of the participation, delta float32 [parameters]); never waits."""
        now = time.perf_counter()
        away = now - self._looked
        if away > _OWN_ABSENCE:
            for client in self._living - self._excused:
                self._heard[client] += away
            self._excused = set(self._living)
        self._looked = now
        found = []
        for client in sorted(self._living):
            while (message := self._inboxes[client].receive()) is not None:
                self._heard[client] = now
                self._excused.discard(client)
                if message.kind is Kind.SIGN and message.fields(1)[0]:
                    self._departed.add(client)
                if message.kind is Kind.UPDATE:
                    found.append((client, message.fields(1)[0], message.vector))
            self._outboxes[client].let_go()
        return found

    def silent(self) -> list[int]:
        """The clients that have just been silent for too long; nothing of theirs is heard from now on."""
        now = time.perf_counter()
        found = [client for client in sorted(self._living) if now - self._heard[client] > self._silence]
        self._living.difference_update(found)
        return found

    @property
    def all_live(self) -> bool:
        """Whether none was given up."""
        return len(self._living) == len(self._ranks)

    def stop(self) -> None:
        """Ends the silos, the lost ones as well should they ever look, and tells them whether MPI can end with all.
        Returns when the living have answered and nothing is under way, or after some seconds."""
        for client in self._ranks:
            self._outboxes[client].send(Message.of(Kind.STOP, int(self.all_live)), self._ranks[client])
        rest, until = Rest(), time.monotonic() + _SECONDS_TO_HAND_OVER
        while time.monotonic() < until and not self._departed >= self._living:
            self.answers()
            rest.a_moment()

    def _send(self, client: int, message: Message) -> None:
        if client in self._living:
            self._outboxes[client].send(message, self._ranks[client])
