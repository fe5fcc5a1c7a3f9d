"""A run's server: its settings and its population brought to life, in virtual time or under a clock."""

import numpy as np

from fedhpc.experiment import RunSettings
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import AnyAlgorithm, make_scheduler
from fedhpc.federation.schedulers.stale_synchronous import StaleSynchronousSettings
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.federation.selection import FreeByExamples, FreeClients, MarkedClients
from fedhpc.federation.synthetic_losses import SyntheticLosses
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.federation.wall_server import WallServer
from fedhpc.latency.availability import Availability
from fedhpc.latency.availability_sources import availability_of
from fedhpc.latency.forecasts import Forecast, forecast_of
from fedhpc.models.settings import Logistic
from fedhpc.streams import Purpose, sequential
from fedhpc.task import Learning


def make_schedule(settings: RunSettings, population: Population) -> VirtualServer:
    """The virtual server of a run, at virtual second 0; iterate its ``server_updates()``. Played alone, its losses are
    made up."""
    seed, trial, algorithm = settings.seed, settings.trial, settings.algorithm
    availability, forecast = _availability(settings, len(population))
    return VirtualServer(
        scheduler=make_scheduler(algorithm),
        population=population,
        client_time=ClientTime(
            algorithm.client,
            settings.scenario,
            population,
            seed,
            trial,
            convex=isinstance(settings.task, Learning) and isinstance(settings.task.model, Logistic),
        ),
        availability=availability,
        forecast=forecast,
        free=_free_clients(algorithm, population, sequential(seed, trial, Purpose.SELECTION)),
        budget=settings.budget,
        chance=sequential(seed, trial, Purpose.SCHEDULER),
        distils=algorithm.client.distillation > 0,
        oracle=isinstance(algorithm, StaleSynchronousSettings) and algorithm.oracle,
        reads_losses=algorithm.reads_losses,
        losses=SyntheticLosses(seed, trial),
    )


def _availability(settings: RunSettings, clients: int) -> tuple[Availability, Forecast] | tuple[None, None]:
    """When the clients are online and what is known of it beforehand; None where they always are."""
    seed, trial, wanted = settings.seed, settings.trial, settings.scenario.availability
    if wanted is None:
        return None, None
    availability = availability_of(wanted, clients, seed, trial)
    return availability, forecast_of(wanted, availability, seed, trial)


def _free_clients(algorithm: AnyAlgorithm, population: Population, selection: np.random.Generator) -> FreeClients:
    """All clients, as the algorithm chooses among them."""
    if isinstance(algorithm, StaleSynchronousSettings):
        return MarkedClients(np.ones(len(population), bool), selection)
    if isinstance(algorithm, SynchronousSettings) and algorithm.selection == "by_examples":
        return FreeByExamples(population.examples, selection)
    privacy = algorithm.privacy
    once_an_epoch = privacy is not None and privacy.mechanism == "dp_ftrl"
    return FreeClients(len(population), selection, once_an_epoch=once_an_epoch)


def make_wall_server(settings: RunSettings, population: Population, profiled: list[float]) -> WallServer:
    """The server of a run under a clock, at second 0, every client of which is a silo. ``profiled``: seconds a
    mini-batch of every client, as it was measured; empty where nobody asks."""
    seed, trial = settings.seed, settings.trial
    return WallServer(
        scheduler=make_scheduler(settings.algorithm),
        population=population,
        work=settings.algorithm.client,
        profiled=profiled,
        free=FreeClients(len(population), sequential(seed, trial, Purpose.SELECTION)),
        budget=settings.budget,
        chance=sequential(seed, trial, Purpose.SCHEDULER),
    )
