"""A run's schedule: its settings and its population brought to life in virtual time."""

from fedhpc.experiment import RunSettings
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import make_scheduler
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.streams import Purpose, sequential


def make_schedule(settings: RunSettings, population: Population) -> VirtualServer:
    """The virtual server of a run, at virtual second 0; iterate its ``server_updates()``."""
    seed, trial = settings.seed, settings.trial
    return VirtualServer(
        scheduler=make_scheduler(settings.algorithm),
        population=population,
        client_time=ClientTime(settings.algorithm.client, settings.scenario, population, seed, trial),
        free=FreeClients(len(population), sequential(seed, trial, Purpose.SELECTION)),
        budget=settings.budget,
        chance=sequential(seed, trial, Purpose.SCHEDULER),
        distils=settings.algorithm.client.distillation > 0,
    )
