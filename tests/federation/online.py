"""Servers for tests of rounds among clients who come and go. A client takes 3 seconds and one an example."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import make_scheduler
from fedhpc.federation.schedulers.stale_synchronous import StaleSynchronous, StaleSynchronousSettings
from fedhpc.federation.selection import MarkedClients
from fedhpc.federation.selectors.selector import Selector, Wanted
from fedhpc.federation.server import Server
from fedhpc.federation.updates import ServerUpdate
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.latency.availability import Availability
from fedhpc.latency.distributions import Constant
from fedhpc.latency.forecasts import Oracle
from fedhpc.latency.scenario import Scenario
from fedhpc.optimizers import SGD

SCENARIO = Scenario(
    communication=Constant(distribution="constant", value=1),
    overhead=Constant(distribution="constant", value=2),
    per_example=Constant(distribution="constant", value=1),
)
PERIOD = 1e6
BATCH = 2


def algorithm(**settings: Any) -> StaleSynchronousSettings:
    """Settings as an experiment's file has them."""
    sgd = SGD(name="sgd", rate=1.0)
    client = ClientSettings(batch_size=BATCH, epochs=1, optimizer=sgd)
    filled = {"scheduler": "stale_synchronous", "client": client, "server_optimizer": sgd} | settings
    return StaleSynchronousSettings.model_validate(filled)


def online(*intervals: Sequence[tuple[float, float]]) -> Availability:
    """When each client is online, in seconds."""
    first = np.cumsum([0, *map(len, intervals)])
    begins, ends = np.array([moment for client in intervals for moment in client]).reshape(-1, 2).T
    return Availability(first, begins.astype(np.float64), ends.astype(np.float64), PERIOD)


def server_of(
    settings: StaleSynchronousSettings,
    examples: list[int],
    budget: Budget,
    availability: Availability | None = None,
    kind: type[VirtualServer] = VirtualServer,
    seed: int = 0,
) -> VirtualServer:
    population = Population(np.array(examples), np.zeros(len(examples), bool))
    return kind(
        scheduler=make_scheduler(settings),
        population=population,
        client_time=ClientTime(settings.client, SCENARIO, population, 0, 0),
        free=MarkedClients(np.ones(len(examples), bool), np.random.default_rng(0)),
        budget=budget,
        chance=np.random.default_rng(seed),
        availability=availability,
        forecast=None if availability is None else Oracle(availability),
        oracle=settings.oracle,
        reads_losses=settings.reads_losses,
    )


class InTurn(Selector):
    """Rounds whose clients are given; what they asked for is kept."""

    def __init__(self, rounds: list[list[int]]) -> None:
        self.rounds = iter(rounds)
        self.asked: list[Wanted] = []

    def select(self, server: Server, wanted: Wanted) -> NDArray[np.int64]:
        self.asked.append(wanted)
        clients = next(self.rounds)
        assert server.candidates()[clients].all()
        return np.array(clients, np.int64)


def played(
    settings: StaleSynchronousSettings,
    examples: list[int],
    rounds: list[list[int]],
    availability: Availability | None = None,
    server_updates: int | None = None,
) -> tuple[VirtualServer, list[ServerUpdate], InTurn]:
    """The rounds' server updates, one each unless another number is told, after version 0."""
    budget = Budget(server_updates=len(rounds) if server_updates is None else server_updates)
    server = server_of(settings, examples, budget, availability)
    scheduler = server.scheduler
    assert isinstance(scheduler, StaleSynchronous)
    scheduler.selector = selector = InTurn(rounds)
    return server, list(server.server_updates()), selector


def who(update: ServerUpdate) -> list[int]:
    return [one.client for one in update.updates]


def staleness(update: ServerUpdate) -> list[int]:
    return [one.staleness for one in update.updates]
