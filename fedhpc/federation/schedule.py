"""A run's server: its settings and its population brought to life, in virtual time or under a clock."""

from fedhpc.experiment import RunSettings
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import make_scheduler
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.federation.selection import FreeByExamples, FreeClients
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.federation.wall_server import WallServer
from fedhpc.models.settings import Logistic
from fedhpc.streams import Purpose, sequential
from fedhpc.task import Classification


def make_schedule(settings: RunSettings, population: Population) -> VirtualServer:
    """The virtual server of a run, at virtual second 0; iterate its ``server_updates()``."""
    seed, trial, privacy = settings.seed, settings.trial, settings.algorithm.privacy
    selection = sequential(seed, trial, Purpose.SELECTION)
    once_an_epoch = privacy is not None and privacy.mechanism == "dp_ftrl"
    free = FreeClients(len(population), selection, once_an_epoch=once_an_epoch)
    if isinstance(settings.algorithm, SynchronousSettings) and settings.algorithm.selection == "by_examples":
        free = FreeByExamples(population.examples, selection)
    return VirtualServer(
        scheduler=make_scheduler(settings.algorithm),
        population=population,
        client_time=ClientTime(
            settings.algorithm.client,
            settings.scenario,
            population,
            seed,
            trial,
            convex=isinstance(settings.task, Classification) and isinstance(settings.task.model, Logistic),
        ),
        free=free,
        budget=settings.budget,
        chance=sequential(seed, trial, Purpose.SCHEDULER),
        distils=settings.algorithm.client.distillation > 0,
        reads_losses=settings.algorithm.reads_losses,
    )


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
