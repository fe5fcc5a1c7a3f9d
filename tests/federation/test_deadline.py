"""What clients do by a deadline, by hand, against a search, and as rounds of a schedule (FedCore, sections 4, 6.1)."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.deadline import DeadlineWork, deadline_of, work_by_deadline
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.synchronous import Synchronous, SynchronousSettings
from fedhpc.federation.selection import FreeByExamples, FreeClients
from fedhpc.federation.updates import ScheduleError
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.latency.scenario import Scenario
from fedhpc.optimizers import SGD

SGD_1 = SGD(name="sgd", rate=1.0)
WAYS = ["drop", "fewer_epochs", "coreset"]


def client(within: str | None, epochs: int = 5, batch_size: int = 4) -> ClientSettings:
    return ClientSettings(batch_size=batch_size, epochs=epochs, optimizer=SGD_1, within_deadline=within)  # type: ignore[arg-type]


def work(
    within: str, examples: int, deadline: float, capability: float = 1, convex: bool = False, epochs: int = 5
) -> DeadlineWork | None:
    return work_by_deadline(client(within, epochs), examples, capability, deadline, convex=convex)


@pytest.mark.parametrize("within", WAYS)
def test_whoever_can_do_everything_does(within: str) -> None:
    # Five epochs of ten examples, three batches each.
    assert work(within, 10, 50) == DeadlineWork(15, 50)
    assert work(within, 10, 25, capability=2) == DeadlineWork(15, 50)
    assert work(within, 0, 0) == DeadlineWork(0, 0)


def test_a_straggler_is_dropped() -> None:
    assert work("drop", 10, 49.9) is None


def test_a_straggler_takes_fewer_epochs() -> None:
    # int(tau c / n * E) with tau the deadline of one epoch: of 49.9 seconds, 4; of 9.9, none.
    assert work("fewer_epochs", 10, 49.9) == DeadlineWork(12, 40)
    assert work("fewer_epochs", 10, 10) == DeadlineWork(3, 10)
    assert work("fewer_epochs", 10, 9.9) is None


def test_a_straggler_trains_on_a_coreset_after_an_epoch_on_everything() -> None:
    # b = floor((c tau E - n) / (E - 1)): (29.9 - 10) / 4 = 4.9; three batches, then four epochs of one.
    assert work("coreset", 10, 29.9) == DeadlineWork(3 + 4, 10 + 4 * 4, 4, 1)
    assert work("coreset", 10, 14.95, capability=2) == DeadlineWork(7, 26, 4, 1)
    # 14 seconds leave one example; five of them, two batches.
    assert work("coreset", 10, 14) == DeadlineWork(3 + 4, 14, 1, 1)
    assert work("coreset", 10, 30) == DeadlineWork(3 + 4 * 2, 30, 5, 1)


def test_without_time_for_an_epoch_all_epochs_are_on_the_coreset() -> None:
    # A forward pass over ten examples counts as four; (13.9 - 4) / 5 = 1.98. A convex model has none: 13.9 / 5 = 2.78.
    assert work("coreset", 10, 13.9) == DeadlineWork(5, 4 + 5, 1, 0)
    assert work("coreset", 10, 13.9, convex=True) == DeadlineWork(5, 10, 2, 0)
    assert work("coreset", 10, 9) == DeadlineWork(5, 9, 1, 0)
    assert work("coreset", 10, 8.9) is None
    assert work("coreset", 10, 5, convex=True) == DeadlineWork(5, 5, 1, 0)
    assert work("coreset", 10, 4.9, convex=True) is None


def test_one_epoch_is_on_the_coreset_alone() -> None:
    assert work("coreset", 10, 9.9, epochs=1) == DeadlineWork(2, 4 + 5, 5, 0)
    assert work("coreset", 10, 9.9, epochs=1, convex=True) == DeadlineWork(3, 9, 9, 0)


@given(
    examples=st.integers(1, 300),
    capability=st.floats(0.05, 20),
    share=st.floats(0.001, 1.2),
    epochs=st.integers(1, 12),
    convex=st.booleans(),
)
def test_the_work_is_the_most_that_ends_by_the_deadline(
    examples: int, capability: float, share: float, epochs: int, convex: bool
) -> None:
    deadline = share * epochs * examples / capability

    def fits(processed: int) -> bool:
        return processed / capability <= deadline

    everything = fits(epochs * examples)
    sizes = range(1, examples)
    passes = [passed for passed in range(1, epochs) if fits(passed * examples)]
    fewer = work("fewer_epochs", examples, deadline, capability, epochs=epochs)
    core = work("coreset", examples, deadline, capability, convex, epochs)
    if everything:
        assert fewer == core == work("drop", examples, deadline, capability, epochs=epochs)
        return
    assert work("drop", examples, deadline, capability, epochs=epochs) is None
    assert (fewer.processed if fewer else 0) == examples * max(passes, default=0)
    after = [size for size in sizes if epochs > 1 and fits(examples + (epochs - 1) * size)]
    forward = 0 if convex else (examples + 2) // 3
    instead = [size for size in sizes if fits(forward + epochs * size)]
    if after:
        assert core is not None
        assert (core.coreset, core.whole_epochs) == (max(after), 1)
        assert core.processed == examples + (epochs - 1) * max(after)
    elif instead:
        assert core is not None
        assert (core.coreset, core.whole_epochs, core.processed) == (max(instead), 0, forward + epochs * max(instead))
    else:
        assert core is None


def test_the_deadline_is_a_percentile_of_the_full_work() -> None:
    # Two epochs of 10, 20, ..., 110 examples, all at 2 a second: 10, 20, ..., 110 seconds. The 90th of 11 is the tenth.
    examples = np.arange(10, 120, 10)
    assert deadline_of(2, examples, np.full(11, 2.0), 10) == 100
    assert deadline_of(2, examples, np.full(11, 2.0), 50) == 60
    assert deadline_of(2, examples, np.full(11, 2.0), 25) == 85  # between the eighth and the ninth
    assert deadline_of(1, np.array([8, 8]), np.array([1.0, 4.0]), 50) == 5


CONSTANT = {"capability": {"distribution": "constant", "value": 2}}
SIZES = [2, 4, 6, 8, 20]


def played(
    within: str | None,
    percent: float = 20,
    sizes: list[int] = SIZES,
    budget: Budget | None = None,
    selection: str = "uniform",
    scenario: dict[str, Any] | None = None,
    **settings: Any,
) -> VirtualServer:
    """Two examples a second and two epochs: the full work takes as many seconds as a client holds examples."""
    algorithm = SynchronousSettings(
        scheduler="synchronous",
        client=client(within, epochs=2),
        server_optimizer=SGD_1,
        selection=selection,  # type: ignore[arg-type]
        **{"cohort": len(sizes), **settings},
    )
    population = Population(np.array(sizes), np.zeros(len(sizes), bool))
    parts = {**CONSTANT, "straggler_percent": percent, **(scenario or {})}
    free = FreeClients(len(sizes), np.random.default_rng(0))
    if selection == "by_examples":
        free = FreeByExamples(population.examples, np.random.default_rng(0))
    return VirtualServer(
        scheduler=Synchronous(algorithm),
        population=population,
        client_time=ClientTime(algorithm.client, Scenario.model_validate(parts), population, 0, 0),
        free=free,
        budget=budget or Budget(server_updates=1),
        chance=np.random.default_rng(1),
    )


def test_a_round_waits_for_those_who_take_part() -> None:
    # The 80th percentile of 2, 4, 6, 8 and 20 lies a fifth of the way from the fourth to the fifth: 8 + 0.2 * 12.
    server = played("drop")
    assert server.client_time.deadline == pytest.approx(10.4)
    _, update = server.server_updates()
    assert update.time == 8
    assert sorted(used.client for used in update.updates) == [0, 1, 2, 3]
    weights = {used.client: weight for used, weight in zip(update.updates, update.weights, strict=True)}
    assert weights == pytest.approx({0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4})
    assert (update.totals.client_trips, update.totals.resource_used, update.totals.resource_wasted) == (4, 20, 0)
    assert 4 not in server.participations
    assert server.free.count == 1  # the dropped one; the others began the next round


def test_a_deadline_is_nothing_to_those_who_are_not_told_of_it() -> None:
    server = played(None)
    _, update = server.server_updates()
    assert (update.time, server.client_time.deadline) == (20, pytest.approx(10.4))


@pytest.mark.parametrize(
    ("within", "time", "steps", "coreset"),
    [
        # 10.4 seconds are 20.8 examples: of two epochs of 20 the first, in five batches; or, as an epoch on everything
        # would leave 0.8 for the coreset, a forward pass (7) and two epochs of 6, in two batches each.
        ("fewer_epochs", 10, 5, (0, 0)),
        ("coreset", 9.5, 4, (6, 0)),
    ],
)
def test_a_straggler_that_takes_part_has_less_to_do(
    within: str, time: float, steps: int, coreset: tuple[int, int]
) -> None:
    _, update = played(within).server_updates()
    (straggler,) = [used for used in update.updates if used.client == 4]
    assert (update.time, straggler.steps) == (time, steps)
    assert (straggler.coreset, straggler.whole_epochs) == coreset
    assert not any(used.coreset for used in update.updates if used.client != 4)
    assert len(update.updates) == 5
    assert straggler.examples == 20  # its weight is that of all that it holds


def test_other_latencies_come_on_top_and_do_not_move_the_deadline() -> None:
    seconds = {"distribution": "constant", "value": 100}
    server = played("drop", scenario={"communication": seconds, "per_example": {**seconds, "value": 1}})
    _, update = server.server_updates()
    # 8 examples twice: 16 seconds by the factor, 8 by the capability.
    assert (update.time, server.client_time.deadline) == (124, pytest.approx(10.4))


def test_nobody_in_a_round_is_followed_by_another_selection_at_once() -> None:
    server = played("drop", cohort=1, budget=Budget(server_updates=200))
    updates = list(server.server_updates())[1:]
    assert {update.updates[0].client for update in updates} == {0, 1, 2, 3}
    assert all(len(update.updates) == 1 for update in updates)
    # Rounds follow each other without a gap.
    assert [update.updates[0].started for update in updates] == [0.0, *(update.time for update in updates[:-1])]
    # The versions' lives do not lengthen where a selection came to nothing.
    assert set(server.open_updates) <= {200}


def test_over_selection_waits_for_the_first_of_those_who_take_part() -> None:
    _, update = played("drop", cohort=3, over_selection=5).server_updates()
    assert (update.time, [used.client for used in update.updates]) == (6, [0, 1, 2])
    _, update = played("drop", percent=70, cohort=3, over_selection=5).server_updates()
    # The 30th percentile lies between 4 and 6: two take part, and the round waits for no third.
    assert (update.time, [used.client for used in update.updates]) == (4, [0, 1])


def test_nobody_ever_is_told_in_words() -> None:
    # Three hold nothing, are never drawn by their examples, and set a deadline of 0 for the others.
    server = played("drop", percent=90, sizes=[0, 0, 0, 5, 5], cohort=1, selection="by_examples")
    assert server.client_time.deadline == 0
    with pytest.raises(ScheduleError, match="no client that can do its work by the deadline; lower the scenario's"):
        list(server.server_updates())


def test_by_examples_needs_clients_that_hold_some() -> None:
    population = Population(np.array([0, 0, 0, 5, 5]), np.zeros(5, bool))
    settings = played("drop", selection="by_examples", cohort=3).scheduler.settings  # type: ignore[attr-defined]
    assert settings.mistakes(population, Budget(server_updates=1)) == [
        "selection: by_examples draws clients who hold an example, and of 3 wanted there are 2; lower cohort, or name "
        "uniform"
    ]
    assert settings.mistakes(Population(np.ones(3, np.int64), np.zeros(3, bool)), Budget(server_updates=1)) == []
