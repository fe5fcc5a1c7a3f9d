"""Schedules by hand: constant latencies, populations in which the draw of clients does not matter.

A client takes communication 1 + overhead 2 + 1 an example: those of 1, 2, 3, 4 examples take 4, 5, 6, 7 seconds.
"""

import numpy as np
import pytest
from pydantic import ValidationError

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import make_scheduler
from fedhpc.federation.schedulers.buffered import BufferedSettings
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation, ScheduleError, ServerUpdate
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.latency.distributions import Constant
from fedhpc.latency.scenario import Scenario
from fedhpc.optimizers import SGD

SGD_1 = SGD(name="sgd", rate=1.0)
CLIENT = ClientSettings(batch_size=2, epochs=1, optimizer=SGD_1)


def seconds(value: float) -> Constant:
    return Constant(distribution="constant", value=value)


BUDGET = Budget(client_updates=100)
SCENARIO = Scenario(communication=seconds(1), overhead=seconds(2), per_example=seconds(1))


def server(settings: SynchronousSettings | BufferedSettings, examples: list[int], budget: Budget) -> VirtualServer:
    population = Population(np.array(examples), np.zeros(len(examples), bool))
    return VirtualServer(
        scheduler=make_scheduler(settings),
        population=population,
        client_time=ClientTime(settings.client, SCENARIO, population, 0, 0),
        free=FreeClients(len(examples), np.random.default_rng(0)),
        budget=budget,
        chance=np.random.default_rng(1),
    )


def synchronous(**settings: object) -> SynchronousSettings:
    return SynchronousSettings(scheduler="synchronous", client=CLIENT, server_optimizer=SGD_1, **settings)  # type: ignore[arg-type]


def buffered(**settings: object) -> BufferedSettings:
    return BufferedSettings(scheduler="buffered", client=CLIENT, server_optimizer=SGD_1, **settings)  # type: ignore[arg-type]


def clients(update: ServerUpdate) -> list[int]:
    return [participation.client for participation in update.updates]


def test_over_selection_takes_the_first_and_stops_the_rest() -> None:
    # All four are selected every round; those of 1 and 2 examples arrive at 4 and 5 seconds.
    played = server(synchronous(cohort=2, over_selection=4), [1, 2, 3, 4], Budget(client_updates=4))
    initial, first, second = played.server_updates()
    assert (initial.version, initial.time, initial.updates) == (0, 0.0, [])
    assert (first.version, first.time, clients(first)) == (1, 5.0, [0, 1])
    assert first.weights == [1 / 3, 2 / 3]  # by examples
    # Two that arrived spent 4 + 5; two were stopped after 5 each.
    assert (first.totals.resource_used, first.totals.resource_wasted) == (19.0, 10.0)
    assert (first.totals.client_updates, first.totals.client_trips, first.totals.local_steps) == (2, 2, 2)
    assert (second.time, clients(second), second.totals.unique_clients) == (10.0, [0, 1], 2)
    assert [participation.participation for participation in second.updates] == [1, 1]


def test_a_round_waits_for_its_slowest_without_over_selection() -> None:
    played = server(synchronous(cohort=4, weighting="uniform"), [1, 2, 3, 4], Budget(server_updates=2))
    updates = list(played.server_updates())
    assert [update.time for update in updates] == [0.0, 7.0, 14.0]
    assert updates[1].weights == [0.25] * 4
    assert updates[2].totals.resource_used == 2 * (4 + 5 + 6 + 7)
    assert updates[2].totals.local_steps == 2 * (1 + 1 + 2 + 2)  # batches of two


def test_a_deadline_closes_the_round_with_what_has_arrived() -> None:
    played = server(synchronous(cohort=4, deadline=5.5), [1, 2, 3, 4], Budget(server_updates=2))
    updates = list(played.server_updates())
    assert [(update.time, clients(update)) for update in updates[1:]] == [(5.5, [0, 1]), (11.0, [0, 1])]


def test_a_deadline_before_every_arrival_makes_no_server_update() -> None:
    # The rounds of 3 seconds are fruitless for ever: refused in words, not an endless loop.
    played = server(synchronous(cohort=4, deadline=3), [1, 2, 3, 4], Budget(client_updates=1))
    with pytest.raises(ScheduleError, match="raise the algorithm's deadline"):
        list(played.server_updates())


def test_time_that_stands_still_is_refused_where_time_is_the_budget() -> None:
    settings = buffered(buffer_size=1, concurrency=2)
    still = server(settings, [0, 0, 0], Budget(virtual_seconds=5))
    still.client_time = ClientTime(CLIENT, Scenario(communication=seconds(0)), still.population, 0, 0)
    with pytest.raises(ScheduleError, match="virtual time stands still"):
        for _ in still.server_updates():
            pass


def test_clients_without_examples_take_part_and_weigh_nothing() -> None:
    played = server(synchronous(cohort=3), [0, 0, 4], Budget(server_updates=1))
    _, update = played.server_updates()
    assert update.time == 7.0
    assert update.weights == [0.0, 0.0, 1.0]
    assert update.totals.local_steps == 2
    nobody = server(synchronous(cohort=2), [0, 0], Budget(server_updates=1))
    assert [update.weights for update in nobody.server_updates()] == [[], [0.0, 0.0]]


def test_fedbuff_refilling_at_server_updates() -> None:
    # t=4: c0 waits in the buffer. t=5: c1 fills it: version 1, c0 and c1 start again (arrivals 9 and 10).
    # t=6: c2, of version 0, waits. t=9: c0 fills the buffer: version 2, c2 is 1 stale and c0 not.
    settings = buffered(buffer_size=2, concurrency=3, refill="at_server_update")
    played = server(settings, [1, 2, 3], Budget(server_updates=2))
    _, first, second = played.server_updates()
    assert (first.time, clients(first), first.weights) == (5.0, [0, 1], [0.5, 0.5])
    assert (second.time, clients(second)) == (9.0, [2, 0])
    assert second.weights == [0.5 * 2**-0.5, 0.5]  # s(tau) = (1 + tau)^-0.5, over K = 2
    assert [second.version - 1 - participation.version for participation in second.updates] == [1, 0]


def test_fedbuff_refilling_immediately() -> None:
    # Four alike clients take 4 seconds. Two start at 0 and arrive together at 4: the first makes version 1, the second,
    # one stale, version 2; their successors, of versions 1 and 2, arrive at 8, each one stale.
    settings = buffered(buffer_size=1, concurrency=2, normalization="sum")
    played = server(settings, [1, 1, 1, 1], Budget(server_updates=4))
    updates = list(played.server_updates())[1:]
    assert [update.time for update in updates] == [4.0, 4.0, 8.0, 8.0]
    assert [update.updates[0].version for update in updates] == [0, 0, 1, 2]
    assert [update.weights for update in updates] == [[1.0], [2**-0.5], [2**-0.5], [2**-0.5]]


def test_fedbuff_sum_and_example_weights() -> None:
    settings = buffered(
        buffer_size=2, concurrency=3, refill="at_server_update", normalization="sum", weighting="examples"
    )
    _, first = server(settings, [1, 2, 3], Budget(server_updates=1)).server_updates()
    assert first.weights == [2 * 1 / 3, 2 * 2 / 3]


def test_a_virtual_time_budget_ends_before_the_event_that_exceeds_it() -> None:
    played = server(synchronous(cohort=4), [1, 2, 3, 4], Budget(virtual_seconds=20.9))
    assert [update.time for update in played.server_updates()] == [0.0, 7.0, 14.0]


def test_the_stopped_and_the_aggregated_leave_no_version_open() -> None:
    played = server(synchronous(cohort=2, over_selection=4), [1, 2, 3, 4], Budget(client_updates=40))
    for update in played.server_updates():
        assert set(played.open_updates) <= {update.version}


def test_a_population_too_small_is_named_with_the_mend() -> None:
    population = Population(np.ones(10, np.int64), np.zeros(10, bool))
    told = synchronous(cohort=11).mistakes(population, BUDGET)
    assert told == ["cohort: 11 exceeds the population of 10 clients; lower it"]
    told = synchronous(cohort=10, over_selection=12).mistakes(population, BUDGET)
    assert told[0].startswith("over_selection: 12 exceeds")
    assert synchronous(cohort=10).mistakes(population, BUDGET) == []
    # Up to K - 1 = 4 updates wait in the buffer while 7 train: 11 clients.
    assert "make 11 clients, which exceeds" in buffered(buffer_size=5, concurrency=7).mistakes(population, BUDGET)[0]
    assert buffered(buffer_size=4, concurrency=7).mistakes(population, BUDGET) == []
    assert buffered(buffer_size=5, concurrency=10, refill="at_server_update").mistakes(population, BUDGET) == []


def test_silos_begin_again_at_once_and_may_be_in_a_buffer_twice() -> None:
    # Clients of 1 and 4 examples take 4 and 7 seconds. The first is back at 4, 8 and 12, the second at 7.
    settings = buffered(buffer_size=2, concurrency=2, refill="same_client")
    played = server(settings, [1, 4], Budget(server_updates=2))
    _, first, second = played.server_updates()
    assert (first.time, clients(first)) == (7.0, [0, 1])
    assert (second.time, clients(second)) == (12.0, [0, 0])
    assert [update.version for update in second.updates] == [0, 1]
    assert second.weights == pytest.approx([0.5 / 2**0.5, 0.5])


def test_what_silos_that_always_train_do_not_go_with() -> None:
    population = Population(np.ones(3, int), np.zeros(3, bool))
    settings = buffered(buffer_size=2, concurrency=2, refill="same_client")
    assert settings.mistakes(population, Budget(client_updates=1)) == [
        "concurrency: 2 is not the population of 3 clients, all of which train under refill same_client; make it so, "
        "or choose another refill"
    ]
    with pytest.raises(ValidationError, match="goes with concurrency, not arrivals"):
        buffered(buffer_size=2, arrivals={"rate": 1.0}, refill="same_client")


class GivesOrders:
    """All clients at once, each with steps of its own; an arrival makes a server update only with the next one."""

    def __init__(self, steps: list[int]) -> None:
        self.steps, self.waiting = steps, list[Participation]()

    def begin(self, server: Server) -> None:
        server.start(server.select(len(self.steps)), steps=self.steps)

    def arrived(self, server: Server, update: Participation) -> None:
        self.waiting.append(update)
        if len(self.waiting) == 2:
            server.aggregate(self.waiting, [0.5, 0.5])
            self.waiting = []

    def timer(self, server: Server, token: int) -> None:
        raise AssertionError("no timer was set")


def test_a_scheduler_may_say_how_many_steps_a_client_takes() -> None:
    # Batches of 2 of 3 examples: 1 step holds 2 examples, 2 steps 3, 5 steps 8; 1 + 2 seconds and 1 an example.
    played = server(synchronous(cohort=1), [3, 3, 3], Budget(virtual_seconds=100))
    played.scheduler = GivesOrders([5, 1, 2])
    first = next(update for update in played.server_updates() if update.version)
    assert [update.steps for update in first.updates] == [1, 2]
    assert [update.arrives for update in first.updates] == [5.0, 6.0]


def test_what_waits_at_the_end_is_counted() -> None:
    played = server(synchronous(cohort=1), [3, 3, 3], Budget(virtual_seconds=12))
    played.scheduler = GivesOrders([5, 1, 2])
    with pytest.raises(ScheduleError, match="no client is training"):
        list(played.server_updates())
    assert played.totals.updates_waiting == 1
    assert (played.totals.client_trips, played.totals.client_updates) == (3, 2)
