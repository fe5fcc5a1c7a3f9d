"""When asynchronous clients begin: when a slot is free, or at a rate of their own (Nguyen et al. 2022, section 6)."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from fedhpc.federation.schedulers.settings import AlgorithmSettings
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.settings import Settings


class ArrivalSettings(Settings):
    """Clients that begin in a virtual second, on average: evenly spaced, or as a Poisson process."""

    rate: float = Field(gt=0, le=1e9)
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

    def begin(self, server: VirtualServer) -> None:
        """Virtual time starts: the slots are filled, or the first client is waited for."""
        if self.settings.concurrency is not None:
            server.start(server.select(self.settings.concurrency))
        else:
            self._wait(server)

    def refill(self, server: VirtualServer, slots: int) -> None:
        """So many slots are free."""
        if self.settings.concurrency is not None:
            server.start(server.select(slots))

    def one_more(self, server: VirtualServer) -> None:
        """The timer has run out: a client begins."""
        if server.free.anybody:
            server.start(server.select(1))
        self._wait(server)

    def _wait(self, server: VirtualServer) -> None:
        arrivals = self.settings.arrivals
        assert arrivals is not None
        gap = 1 / arrivals.rate
        if arrivals.process == "poisson":
            gap *= server.chance.exponential()
        server.set_timer(server.now + gap, 0, is_deadline=False)
