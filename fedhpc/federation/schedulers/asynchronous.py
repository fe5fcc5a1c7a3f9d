"""FedAsync (Xie et al. 2019): every client update makes a server update.

The global model moves to the client's by w <- (1 - a) w + a w_client with a = alpha s(tau), where the staleness tau is
the number of server updates between the client's download and its upload.
"""

from typing import Annotated, Literal

from pydantic import Field

from fedhpc.budget import Budget
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.arrivals import Arrivals, ArrivingSettings
from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation
from fedhpc.settings import Settings


class ConstantStaleness(Settings):
    """s = 1."""

    kind: Literal["constant"]

    def weight(self, staleness: int) -> float:
        return 1.0


class PolynomialStaleness(Settings):
    """s = (tau + 1)^-a; ``exponent`` is a."""

    kind: Literal["polynomial"]
    exponent: float = Field(0.5, ge=0, le=100)

    def weight(self, staleness: int) -> float:
        return float((staleness + 1) ** -self.exponent)


class HingeStaleness(Settings):
    """s = 1 up to tau = b, then 1 / (a (tau - b) + 1); ``slope`` is a and ``free`` is b."""

    kind: Literal["hinge"]
    slope: float = Field(ge=0, le=1e6)
    free: float = Field(ge=0, le=1e12)

    def weight(self, staleness: int) -> float:
        return 1.0 if staleness <= self.free else 1 / (self.slope * (staleness - self.free) + 1)


Staleness = Annotated[ConstantStaleness | PolynomialStaleness | HingeStaleness, Field(discriminator="kind")]


class AsynchronousSettings(ArrivingSettings):
    """``mixing`` is alpha. With the server optimiser sgd at rate 1 the rule is Xie et al.'s; another takes
    a (w - w_client) for its gradient."""

    scheduler: Literal["asynchronous"]
    mixing: float = Field(gt=0, le=1)
    staleness: Staleness = ConstantStaleness(kind="constant")
    weighting: Literal["uniform"] = "uniform"

    @property
    def updates(self) -> int:
        """One."""
        return 1

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        found = super().mistakes(population, budget)
        if self.concurrency is not None and self.concurrency > len(population):
            exceeds = f"exceeds the population of {len(population)} clients; lower it"
            found.append(f"concurrency: {self.concurrency} {exceeds}")
        return found


class Asynchronous:
    """Clients come and go."""

    def __init__(self, settings: AsynchronousSettings) -> None:
        self.settings = settings
        self.arrivals = Arrivals(settings)

    def begin(self, server: Server) -> None:
        self.arrivals.begin(server)

    def arrived(self, server: Server, update: Participation) -> None:
        staleness = server.version - update.version
        weight = self.settings.mixing * self.settings.staleness.weight(staleness)
        server.aggregate([update], [weight], moves_to_clients=True)
        self.arrivals.refill(server, 1)

    def lost(self, server: Server, update: Participation) -> None:
        self.arrivals.lost(server)

    def timer(self, server: Server, token: int) -> None:
        self.arrivals.one_more(server)
