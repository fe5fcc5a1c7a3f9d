"""When asynchronous clients begin: when a slot is free, or at a rate of their own (Nguyen et al. 2022, section 6)."""

import math
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from fedhpc.federation.schedulers.settings import AlgorithmSettings
from fedhpc.federation.server import Server
from fedhpc.settings import Settings


class ArrivalSettings(Settings):
    """Clients that begin in a virtual second, on average: evenly spaced, or as a Poisson process."""

    rate: float = Field(ge=1e-12, le=1e9)
    process: Literal["constant", "poisson"] = "constant"


class ArrivingSettings(AlgorithmSettings):
    """Either ``concurrency``, the clients that train at any moment, or ``arrivals``: then as many train as the rate and
    their durations have it, on average their product."""

    concurrency: int | None = Field(None, ge=1)
    arrivals: ArrivalSettings | None = Field(None, validate_default=True)

    @field_validator("arrivals")
    @classmethod
    def _one_of_the_two(cls, arrivals: ArrivalSettings | None, others: ValidationInfo) -> ArrivalSettings | None:
        if "concurrency" in others.data and (others.data["concurrency"] is None) == (arrivals is None):
            raise ValueError("concurrency: give either concurrency or arrivals, one of them and not both")
        return arrivals


class Arrivals:
    """Starts clients by these settings. One that would begin while all are busy does not."""

    def __init__(self, settings: ArrivingSettings) -> None:
        self.settings = settings
        self.last = 0
        """The last arrival at a constant rate that was waited for, counted from 1."""
        self.all_busy = False
        self.empty_slots = 0
        """Those that nobody was free for: only where clients can be lost."""

    def begin(self, server: Server) -> None:
        """Virtual time starts: the slots are filled, or the first client is waited for."""
        if self.settings.concurrency is not None:
            self.refill(server, self.settings.concurrency)
        else:
            self._wait(server)

    def refill(self, server: Server, slots: int) -> None:
        """So many slots are free."""
        if self.settings.concurrency is not None:
            clients = server.select(slots + self.empty_slots)
            self.empty_slots += slots - len(clients)
            server.start(clients)
        elif self.all_busy and server.free.anybody:
            self._wait(server)

    def lost(self, server: Server) -> None:
        """A client that trained is lost: its slot is free, and is filled if anybody is."""
        self.refill(server, 1)

    def one_more(self, server: Server) -> None:
        """The timer has run out: a client begins."""
        self.all_busy = not server.free.anybody
        if not self.all_busy:
            server.start(server.select(1))
            self._wait(server)

    def _wait(self, server: Server) -> None:
        """For the next arrival after now. While all are busy nobody is waited for: what a Poisson process does next
        does not depend on what it did, and arrivals at a constant rate keep to their times."""
        arrivals = self.settings.arrivals
        assert arrivals is not None
        self.all_busy = False
        if arrivals.process == "poisson":
            time = server.now + server.chance.exponential() / arrivals.rate
        else:
            self.last = max(self.last + 1, math.floor(server.now * arrivals.rate) + 1)
            time = self.last / arrivals.rate
        server.set_timer(time, 0, is_deadline=False)
