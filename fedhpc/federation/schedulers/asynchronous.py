"""FedAsync (Xie et al. 2019): every client update makes a server update.

The global model moves to the client's by w <- (1 - a) w + a w_client with a = alpha s(tau), where the staleness tau is
the number of server updates between the client's download and its upload.
"""

from typing import Literal

from pydantic import Field

from fedhpc.budget import Budget
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.arrivals import Arrivals, ArrivingSettings
from fedhpc.federation.schedulers.staleness import ConstantStaleness, Staleness
from fedhpc.federation.server import Scheduler, Server
from fedhpc.federation.updates import Participation


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


class Asynchronous(Scheduler):
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
