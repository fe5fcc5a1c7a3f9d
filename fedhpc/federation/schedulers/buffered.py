"""FedBuff: buffered asynchronous aggregation (Nguyen et al. 2022, Algorithm 1 and section 5).

``concurrency`` clients train at any moment; their updates fill a buffer of K, and a full buffer makes a server
update. An update's staleness tau is the number of server updates between its download and its upload; it weighs
s(tau) = (1 + tau)^-a.
"""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.settings import AlgorithmSettings
from fedhpc.federation.virtual_server import Participation, VirtualServer


class BufferedSettings(AlgorithmSettings):
    """``buffer_size`` is K, ``staleness_exponent`` is a (0 ignores staleness, section 5 takes 0.5).

    ``refill``: a free slot gets its next client at once (FedBuff's own), or when the server next updates (what Hard
    et al.'s times fit). ``normalization``: the buffer's weighted ``sum`` over K (Algorithm 1 line 11, ``mean``), or
    the ``sum`` itself (appendix B.2).
    """

    scheduler: Literal["buffered"]
    buffer_size: int = Field(ge=1)
    concurrency: int = Field(ge=1)
    staleness_exponent: float = Field(0.5, ge=0)
    refill: Literal["immediately", "at_server_update"] = "immediately"
    normalization: Literal["mean", "sum"] = "mean"
    weighting: Literal["examples", "uniform"] = "uniform"

    @field_validator("concurrency")
    @classmethod
    def _buffer_can_fill(cls, concurrency: int, others: ValidationInfo) -> int:
        buffer_size = others.data.get("buffer_size", 0)
        if buffer_size > concurrency:
            raise ValueError(
                f"buffer_size: {buffer_size} exceeds concurrency {concurrency}; lower it or raise concurrency"
            )
        return concurrency

    @property
    def updates(self) -> int:
        """K."""
        return self.buffer_size

    def mistakes(self, population: Population) -> list[str]:
        # A client is busy until its update is aggregated, so that a buffer almost full holds clients back.
        waiting = self.buffer_size - 1 if self.refill == "immediately" else 0
        needed = self.concurrency + waiting
        if needed <= len(population):
            return []
        why = f" and up to {waiting} waiting in the buffer need {needed} clients" if waiting else ""
        return [f"concurrency: {self.concurrency}{why} exceeds the population of {len(population)} clients; lower it"]


class Buffered:
    """Clients come and go; the buffer counts."""

    def __init__(self, settings: BufferedSettings) -> None:
        self.settings = settings
        self.buffer: list[Participation] = []
        self.free_slots = 0

    def begin(self, server: VirtualServer) -> None:
        server.start(server.select(self.settings.concurrency))

    def arrived(self, server: VirtualServer, update: Participation) -> None:
        self.buffer.append(update)
        self.free_slots += 1
        full = len(self.buffer) == self.settings.buffer_size
        if full:
            server.aggregate(self.buffer, self.weights(server))
            self.buffer = []
        if full or self.settings.refill == "immediately":
            server.start(server.select(self.free_slots))
            self.free_slots = 0

    def weights(self, server: VirtualServer) -> list[float]:
        weights = server.mean_weights(self.buffer, self.settings.weighting)
        if self.settings.normalization == "sum":
            weights = [weight * len(self.buffer) for weight in weights]
        newest, exponent = 1.0 + server.version, -self.settings.staleness_exponent
        return [
            weight * (newest - update.version) ** exponent for weight, update in zip(weights, self.buffer, strict=True)
        ]

    def timer(self, server: VirtualServer, token: int) -> None:
        raise AssertionError("the buffered scheduler sets no timer")
