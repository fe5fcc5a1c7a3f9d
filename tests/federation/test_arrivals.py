"""Clients that arrive at a rate of their own, and FedAsync, by hand."""

import numpy as np
import pytest

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import AnyAlgorithm, make_scheduler
from fedhpc.federation.schedulers.arrivals import ArrivalSettings
from fedhpc.federation.schedulers.asynchronous import AsynchronousSettings
from fedhpc.federation.schedulers.buffered import BufferedSettings
from fedhpc.federation.schedulers.staleness import PolynomialStaleness
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.latency.distributions import Constant, HalfNormal
from fedhpc.latency.scenario import Scenario
from fedhpc.optimizers import SGD

SGD_1 = SGD(name="sgd", rate=1.0)
CLIENT = ClientSettings(batch_size=1, epochs=1, optimizer=SGD_1)
FIVE_SECONDS = Scenario(communication=Constant(distribution="constant", value=5))


def server(settings: AnyAlgorithm, clients: int, scenario: Scenario, budget: Budget) -> VirtualServer:
    population = Population(np.ones(clients, np.int64), np.zeros(clients, bool))
    return VirtualServer(
        scheduler=make_scheduler(settings),
        population=population,
        client_time=ClientTime(settings.client, scenario, population, 0, 0),
        free=FreeClients(clients, np.random.default_rng(0)),
        budget=budget,
        chance=np.random.default_rng(1),
    )


def buffered(buffer_size: int, rate: float, process: str = "constant") -> BufferedSettings:
    return BufferedSettings.model_validate(
        {
            "scheduler": "buffered",
            "buffer_size": buffer_size,
            "arrivals": {"rate": rate, "process": process},
            "client": CLIENT,
            "server_optimizer": SGD_1,
        }
    )


def test_clients_begin_at_a_constant_rate() -> None:
    # They begin at 2, 4, 6, ... seconds and take 5: they come at 7, 9, 11, ...; two make a server update.
    played = list(server(buffered(2, 0.5), 20, FIVE_SECONDS, Budget(server_updates=3)).server_updates())
    assert [update.time for update in played] == [0, 9, 13, 17]
    starts = [[one.started for one in update.updates] for update in played]
    assert starts == [[], [2, 4], [6, 8], [10, 12]]
    # Version 1 comes at 9; those that begin at 10 and 12 download it, those of 6 and 8 do not.
    assert [[one.version for one in update.updates] for update in played] == [[], [0, 0], [0, 0], [1, 1]]


def test_nobody_begins_while_all_are_busy() -> None:
    # Two clients: they begin at 2 and 4 and come at 7 and 9, when the buffer is full; at 6 and 8 nobody is free.
    played = list(server(buffered(2, 0.5), 2, FIVE_SECONDS, Budget(server_updates=2)).server_updates())
    assert [[one.started for one in update.updates] for update in played] == [[], [2, 4], [10, 12]]


def test_who_rests_begins_again_in_a_new_epoch() -> None:
    # Once an epoch each of three clients, who begin at 2, 4 and 6 and come at 7, 9 and 11. At 8 nobody is free and the
    # first of them rests: the second epoch begins, and so at 10 and at 12, each time with the one who came just before.
    schedule = server(buffered(1, 0.5), 3, FIVE_SECONDS, Budget(server_updates=7))
    schedule.free = FreeClients(3, np.random.default_rng(0), once_an_epoch=True)
    played = list(schedule.server_updates())[1:]
    assert [update.updates[0].started for update in played[:4]] == [2, 4, 6, 8]
    assert [update.tree_step for update in played[:4]] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    of_trees = [(update.tree_step[0], update.updates[0].client) for update in played]
    assert len(set(of_trees)) == len(of_trees)


@pytest.mark.parametrize("process", ["constant", "poisson"])
def test_arrivals_far_faster_than_clients_come_back_cost_nothing(process: str) -> None:
    # Twelve clients of five seconds: twelve updates every five seconds, and a billion arrivals a second in between.
    schedule = server(buffered(3, 1e9, process), 12, FIVE_SECONDS, Budget(client_updates=60))
    played = list(schedule.server_updates())
    assert played[-1].time == pytest.approx(25, abs=1e-3)
    assert schedule.totals.client_trips == 60


@pytest.mark.parametrize(("process", "variance"), [("constant", 0.0), ("poisson", 1.0)])
def test_gaps_and_concurrency(process: str, variance: float) -> None:
    rate, mean = 50.0, 2.0
    scenario = Scenario(communication=HalfNormal(distribution="half_normal", mean=mean))
    schedule = server(buffered(10, rate, process), 10_000, scenario, Budget(client_updates=20_000))
    used = [one for update in schedule.server_updates() for one in update.updates]
    starts = np.sort([one.started for one in used])[:19_000]
    gaps = np.diff(starts)
    assert gaps.mean() == pytest.approx(1 / rate, rel=0.03)
    assert gaps.var() * rate**2 == pytest.approx(variance, abs=0.05)
    # On average rate * mean duration train at any moment (Little's law).
    at = np.linspace(50, 300, 500)
    started = np.searchsorted(np.sort([one.started for one in used]), at)
    ended = np.searchsorted(np.sort([one.arrives for one in used]), at)
    assert (started - ended).mean() == pytest.approx(rate * mean, rel=0.1)


def test_many_arrivals_before_the_first_upload_are_no_lost_deadlines() -> None:
    slow = Scenario(communication=Constant(distribution="constant", value=1000))
    played = list(server(buffered(1, 100.0), 200_000, slow, Budget(server_updates=1)).server_updates())
    assert played[-1].time == pytest.approx(1000.01)


def test_fedasync_steps_at_every_arrival_by_its_staleness() -> None:
    settings = AsynchronousSettings(
        scheduler="asynchronous",
        concurrency=3,
        mixing=0.5,
        staleness=PolynomialStaleness(kind="polynomial", exponent=1.0),
        client=CLIENT,
        server_optimizer=SGD_1,
    )
    played = list(server(settings, 3, FIVE_SECONDS, Budget(server_updates=5)).server_updates())
    # All three come at 5 in turn, stale by 0, 1 and 2; each begins again at once and comes at 10, stale by 2.
    assert [update.time for update in played] == [0, 5, 5, 5, 10, 10]
    assert [update.weights for update in played[1:]] == [[0.5], [0.25], [0.5 / 3], [0.5 / 3], [0.5 / 3]]
    assert all(update.moves_to_clients for update in played[1:])


def test_fedasync_hears_clients_that_arrive_at_a_rate() -> None:
    settings = AsynchronousSettings(
        scheduler="asynchronous",
        arrivals=ArrivalSettings(rate=0.5),
        mixing=0.5,
        client=CLIENT,
        server_optimizer=SGD_1,
    )
    played = list(server(settings, 20, FIVE_SECONDS, Budget(server_updates=5)).server_updates())
    # They begin at 2, 4, 6, ... and take 5. Those of 2, 4 and 6 download version 0; that of 8 version 1, and so on.
    assert [update.time for update in played] == [0, 7, 9, 11, 13, 15]
    assert [update.version - 1 - update.updates[0].version for update in played[1:]] == [0, 1, 2, 2, 2]


@pytest.mark.parametrize("both", [{}, {"concurrency": 3, "arrivals": {"rate": 1.0}}])
def test_either_concurrency_or_arrivals(both: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="give either concurrency or arrivals, one of them and not both"):
        AsynchronousSettings.model_validate(
            {"scheduler": "asynchronous", "mixing": 0.5, "client": CLIENT, "server_optimizer": SGD_1, **both}
        )
    assert ArrivalSettings(rate=1.0).process == "constant"
