"""FedBuff: buffered asynchronous aggregation (Nguyen et al. 2022, Algorithm 1 and section 5).

Clients train asynchronously; their updates fill a buffer of K, and a full buffer makes a server update. An update's
staleness tau is the number of server updates between its download and its upload; it weighs s(tau) = (1 + tau)^-a.
"""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from fedhpc.budget import Budget
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.arrivals import Arrivals, ArrivingSettings
from fedhpc.federation.server import Scheduler, Server
from fedhpc.federation.updates import Participation


class BufferedSettings(ArrivingSettings):
    """``buffer_size`` is K, ``staleness_exponent`` is a (0 ignores staleness, section 5 takes 0.5).

    ``refill``, of slots under a concurrency: a free slot gets its next client at once (FedBuff's own), or when the
    server next updates (what Hard et al.'s times fit), or the ``same_client`` once more, which then may be in a buffer
    twice: silos all of which always train (FedCompass, section 3). ``normalization``: the buffer's weighted ``sum``
    over K (Algorithm 1 line 11, ``mean``), or the ``sum`` itself (appendix B.2).
    """

    scheduler: Literal["buffered"]
    buffer_size: int = Field(ge=1)
    staleness_exponent: float = Field(0.5, ge=0)
    refill: Literal["immediately", "at_server_update", "same_client"] = "immediately"
    normalization: Literal["mean", "sum"] = "mean"
    weighting: Literal["examples", "uniform"] = "uniform"

    @field_validator("buffer_size")
    @classmethod
    def _buffer_can_fill(cls, buffer_size: int, others: ValidationInfo) -> int:
        concurrency = others.data.get("concurrency")
        if concurrency is not None and buffer_size > concurrency:
            raise ValueError(f"{buffer_size} exceeds concurrency {concurrency}; lower it or raise concurrency")
        return buffer_size

    @field_validator("refill")
    @classmethod
    def _slots_are_refilled(cls, refill: str, others: ValidationInfo) -> str:
        if refill == "same_client" and others.data.get("arrivals") is not None:
            raise ValueError("same_client lets everybody train at all times and goes with concurrency, not arrivals")
        return refill

    @property
    def updates(self) -> int:
        """K."""
        return self.buffer_size

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        found = super().mistakes(population, budget)
        if self.privacy is not None and self.refill == "same_client":
            found.append("refill: same_client has clients in a buffer twice, of which the privacy knows nothing")
        # A client is busy until its update is aggregated, so that a buffer almost full holds clients back.
        waiting = self.buffer_size - 1 if self.refill == "immediately" else 0
        exceeds = f"exceeds the population of {len(population)} clients; lower it"
        if self.concurrency is None:
            if self.buffer_size > len(population):
                found.append(f"buffer_size: {self.buffer_size} {exceeds}")
            return found
        if self.refill == "same_client" and self.concurrency != len(population):
            found.append(
                f"concurrency: {self.concurrency} is not the population of {len(population)} clients, all of which "
                "train under refill same_client; make it so, or choose another refill"
            )
            return found
        needed = self.concurrency + waiting
        if needed > len(population):
            why = f" and up to {waiting} waiting in the buffer make {needed} clients, which" if waiting else ""
            found.append(f"concurrency: {self.concurrency}{why} {exceeds}")
        return found

    @property
    def largest_weight(self) -> float:
        """That of an update without staleness."""
        return 1.0 if self.normalization == "sum" else 1 / self.buffer_size


class Buffered(Scheduler):
    """Clients come and go; the buffer counts."""

    def __init__(self, settings: BufferedSettings) -> None:
        self.settings = settings
        self.arrivals = Arrivals(settings)
        self.buffer: list[Participation] = []
        self.free_slots = 0

    def begin(self, server: Server) -> None:
        if self.settings.refill == "same_client":
            server.start(server.free.take_everybody())
        else:
            self.arrivals.begin(server)

    def arrived(self, server: Server, update: Participation) -> None:
        self.buffer.append(update)
        full = len(self.buffer) == self.settings.buffer_size
        if full:
            server.aggregate(self.buffer, self.weights(server))
            self.buffer = []
        if self.settings.refill == "same_client":
            server.start([update.client])
            return
        self.free_slots += 1
        if full or self.settings.refill == "immediately":
            self.arrivals.refill(server, self.free_slots)
            self.free_slots = 0

    def weights(self, server: Server) -> list[float]:
        weights = server.mean_weights(self.buffer, self.settings.weighting)
        if self.settings.normalization == "sum":
            weights = [weight * len(self.buffer) for weight in weights]
        newest, exponent = 1.0 + server.version, -self.settings.staleness_exponent
        return [
            weight * (newest - update.version) ** exponent for weight, update in zip(weights, self.buffer, strict=True)
        ]

    def lost(self, server: Server, update: Participation) -> None:
        self.arrivals.lost(server)

    def timer(self, server: Server, token: int) -> None:
        self.arrivals.one_more(server)
