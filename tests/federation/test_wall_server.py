"""A clock's server under the schedulers of virtual time: hand-computed counts where silos come late or die."""

from collections.abc import Sequence

import numpy as np
import pytest

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import AnyAlgorithm, make_scheduler
from fedhpc.federation.schedulers.asynchronous import AsynchronousSettings
from fedhpc.federation.schedulers.buffered import BufferedSettings
from fedhpc.federation.schedulers.compass import CompassSettings
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.federation.schedulers.tiered import TieredSettings
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.updates import ScheduleError
from fedhpc.federation.wall_server import WallServer
from fedhpc.optimizers import SGD

COMMON = {
    "client": ClientSettings(batch_size=5, epochs=2, optimizer=SGD(name="sgd", rate=0.1)),
    "server_optimizer": SGD(name="sgd", rate=1.0),
}


def begun(algorithm: AnyAlgorithm, clients: int, profiled: Sequence[float] = ()) -> WallServer:
    """A federation whose clients hold 12 examples each, at second 0."""
    server = WallServer(
        scheduler=make_scheduler(algorithm),
        population=Population(np.full(clients, 12, np.int64), np.zeros(clients, np.bool_)),
        work=algorithm.client,
        profiled=list(profiled),
        free=FreeClients(clients, np.random.default_rng(3)),
        budget=Budget(client_updates=1000),
        chance=np.random.default_rng(4),
    )
    server.scheduler.begin(server)
    return server


def synchronous(cohort: int, **keys: object) -> SynchronousSettings:
    return SynchronousSettings.model_validate({"scheduler": "synchronous", "cohort": cohort, **COMMON, **keys})


def arrive(server: WallServer, client: int, second: float) -> None:
    server.now = second
    server.receive(server.under_way[client])


def lose(server: WallServer, client: int, second: float) -> None:
    server.now = second
    server.lose(client)


def test_work_is_what_the_client_settings_say() -> None:
    server = begun(synchronous(3), 3)
    started = server.take_started()
    assert sorted(update.client for update in started) == [0, 1, 2]
    assert [update.steps for update in started] == [6, 6, 6]  # two epochs of 5 + 5 + 2 examples
    assert server.take_started() == []


def test_a_round_goes_on_without_a_silo_that_dies() -> None:
    server = begun(synchronous(3), 3)
    arrive(server, 0, 1.0)
    arrive(server, 2, 2.0)
    assert server.version == 0
    lose(server, 1, 7.0)
    assert (server.version, server.totals.client_updates) == (1, 2)
    # The next round is of the two that live, and is complete with them.
    assert sorted(server.under_way) == [0, 2]
    arrive(server, 0, 8.0)
    arrive(server, 2, 9.0)
    assert (server.version, server.totals.client_updates) == (2, 4)
    totals = server.totals
    assert (totals.resource_used, totals.resource_wasted) == (1 + 2 + 7 + 1 + 2, 7)
    assert server.lost_at == {1: 7.0}


def test_one_that_dies_before_anybody_arrived_and_one_that_waited_for_its_round() -> None:
    server = begun(synchronous(3), 3)
    lose(server, 0, 1.0)
    arrive(server, 1, 2.0)
    lose(server, 1, 3.0)  # it has uploaded: its update counts, and it takes part no more
    assert server.version == 0
    arrive(server, 2, 4.0)
    assert (server.version, server.totals.client_updates) == (1, 2)
    assert list(server.under_way) == [2]


def test_with_over_selection_the_round_still_waits_for_its_cohort() -> None:
    server = begun(synchronous(2, over_selection=4), 4)
    lose(server, 0, 1.0)
    arrive(server, 1, 2.0)
    assert server.version == 0
    arrive(server, 2, 3.0)
    assert (server.version, server.totals.client_updates) == (1, 2)
    assert [update.client for update in server.take_abandoned()] == [3]
    # 0 was lost at second 1, 3 was told to stop at second 3.
    assert server.totals.resource_wasted == 1 + 3


def test_a_deadline_closes_a_round_and_one_that_nobody_meets_is_told() -> None:
    server = begun(synchronous(2, deadline=5), 2)
    arrive(server, 0, 1.0)
    server.now = 4.9
    assert not server.fire_timer()
    server.now = 5.5
    assert server.fire_timer()
    assert (server.version, server.totals.client_updates) == (1, 1)
    assert [update.client for update in server.take_abandoned()] == [1]
    for _ in range(999):
        server.now += 5.5
        assert server.fire_timer()
    server.now += 5.5
    with pytest.raises(ScheduleError, match=r"1,001 deadlines passed in a row without an arrival"):
        server.fire_timer()


def test_nobody_is_left() -> None:
    server = begun(synchronous(2), 2)
    lose(server, 0, 1.0)
    with pytest.raises(ScheduleError, match=r"no silo is left: client 0 was lost at second 1.0, client 1 was lost"):
        lose(server, 1, 2.0)


def buffered(buffer: int, concurrency: int, **keys: object) -> BufferedSettings:
    content = {"scheduler": "buffered", "buffer_size": buffer, "concurrency": concurrency, **COMMON, **keys}
    return BufferedSettings.model_validate(content)


def test_a_buffer_fills_by_those_that_live_and_a_slot_waits_for_one_that_is_free() -> None:
    server = begun(buffered(2, 3), 4)
    first, second, third = server.under_way
    (fourth,) = {0, 1, 2, 3} - {first, second, third}
    lose(server, first, 1.0)
    assert set(server.under_way) == {second, third, fourth}  # the free one takes the slot
    arrive(server, second, 2.0)  # it waits in the buffer, so that nobody is free
    assert set(server.under_way) == {third, fourth}
    arrive(server, third, 3.0)
    assert (server.version, server.totals.client_updates) == (1, 2)
    assert set(server.under_way) == {second, third, fourth}  # both slots are filled again
    server.refuse_to_wait_in_vain()


def test_a_buffer_that_can_never_fill_again_is_told() -> None:
    server = begun(buffered(2, 2), 3)
    one, other = server.under_way
    (last,) = {0, 1, 2} - {one, other}
    lose(server, one, 1.0)
    lose(server, other, 2.0)
    assert list(server.under_way) == [last]
    arrive(server, last, 3.0)
    with pytest.raises(ScheduleError, match=r"too few silos are left, 1 of 3"):
        server.refuse_to_wait_in_vain()


def test_asynchronous_silos_go_on_one_fewer() -> None:
    settings = {"scheduler": "asynchronous", "concurrency": 3, "mixing": 0.5, **COMMON}
    server = begun(AsynchronousSettings.model_validate(settings), 3)
    lose(server, 0, 1.0)
    for second in range(2, 10):
        arrive(server, 1 + second % 2, second)
    assert server.version == 8
    assert sorted(server.under_way) == [1, 2]
    assert server.participations == {0: 1, 1: 5, 2: 5}


def test_what_a_killed_server_takes_up_again() -> None:
    server = begun(buffered(2, 3), 4)
    one, *_ = server.under_way
    arrive(server, one, 2.0)
    totals = server.totals_if_interrupted()
    # Its two seconds were spent for an update that will now never be used.
    assert (totals.resource_used, totals.resource_wasted, totals.updates_waiting) == (2, 2, 0)
    assert server.totals.resource_wasted == 0
    again = begun(buffered(2, 3), 4)
    again.go_on(2.0, 0, totals, dict(server.participations), {}, [])
    assert again.take_emitted() == []


def compass(**keys: object) -> CompassSettings:
    return CompassSettings.model_validate(
        {"scheduler": "compass", "min_steps": 10, "max_steps": 40, "mixing": 1.0, **COMMON, **keys}
    )


def test_compass_goes_on_without_a_silo_that_dies_while_it_waits_for_its_group() -> None:
    server = begun(compass(), 3)
    for client, second in enumerate((10.0, 10.0, 20.0)):
        arrive(server, client, second)
    # 40 steps of 1 s from second 10; 15 of 2 s from second 20: one group, expected at second 50.
    assert [server.under_way[client].steps for client in range(3)] == [40, 40, 15]
    arrive(server, 0, 50.0)
    lose(server, 0, 51.0)  # it has come and trains no more
    assert server.version == 3
    arrive(server, 1, 51.5)
    arrive(server, 2, 52.0)
    # Its update counts, and only the living begin again.
    assert (server.version, server.totals.client_updates) == (4, 6)
    assert sorted(server.under_way) == [1, 2]
    arrive(server, 1, 90.0)
    arrive(server, 2, 91.0)
    assert (server.version, server.totals.client_updates) == (5, 8)


def test_tiers_are_those_that_were_measured_and_go_on_without_the_dead() -> None:
    algorithm = TieredSettings.model_validate({"scheduler": "tiered", "speed_ratio": 2.0, **COMMON})
    server = begun(algorithm, 4, profiled=[1.0, 5.0, 1.5, 6.0])
    arrive(server, 0, 1.0)
    lose(server, 0, 1.5)
    arrive(server, 2, 2.0)
    assert server.version == 1
    assert sorted(server.under_way) == [1, 2, 3]
    arrive(server, 2, 3.0)
    assert server.version == 2
    lose(server, 3, 4.0)
    arrive(server, 1, 5.0)
    assert (server.version, server.totals.client_updates) == (3, 4)


def test_all_that_waits_is_wasted_by_an_interruption_even_where_a_silo_waits_twice() -> None:
    settings = {"scheduler": "buffered", "buffer_size": 3, "concurrency": 3, "refill": "same_client", **COMMON}
    server = begun(BufferedSettings.model_validate(settings), 3)
    arrive(server, 0, 2.0)
    arrive(server, 0, 5.0)
    assert server.totals_if_interrupted().resource_wasted == 2 + 3
    arrive(server, 1, 6.0)
    assert server.totals_if_interrupted().resource_wasted == 0
