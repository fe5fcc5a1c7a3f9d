"""FARe-DUST's and FeAST's schedules by hand. A client takes 3 seconds and one an example."""

from collections.abc import Iterable

import numpy as np

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.work import NO_TEACHER, teacher_id
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import make_scheduler
from fedhpc.federation.schedulers.fare_dust import FareDustSettings
from fedhpc.federation.schedulers.feast import FeastSettings
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.updates import ServerUpdate
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.latency.distributions import Constant
from fedhpc.latency.scenario import Scenario
from fedhpc.optimizers import SGD

SGD_1 = SGD(name="sgd", rate=1.0)
SCENARIO = Scenario(
    communication=Constant(distribution="constant", value=1),
    overhead=Constant(distribution="constant", value=2),
    per_example=Constant(distribution="constant", value=1),
)
A, B, C, D, E = range(5)
EXAMPLES = [1, 4, 2, 20, 3]
"""So A takes 4 seconds, B 7, C 5, D 23 and E 6."""


class InThisOrder(FreeClients):
    """Rounds whose clients are given."""

    def __init__(self, rounds: list[list[int]]) -> None:
        super().__init__(len(EXAMPLES), np.random.default_rng(0))
        self.rounds = iter(rounds)
        self.free = set(range(len(EXAMPLES)))

    def take(self, count: int) -> list[int]:
        chosen = next(self.rounds)
        assert len(chosen) == count
        assert self.free.issuperset(chosen)
        self.free -= set(chosen)
        return chosen

    def give_back(self, clients: Iterable[int]) -> None:
        self.free |= set(clients)


def played(
    settings: FareDustSettings | FeastSettings, rounds: list[list[int]]
) -> tuple[VirtualServer, list[ServerUpdate]]:
    population = Population(np.array(EXAMPLES), np.zeros(len(EXAMPLES), bool))
    server = VirtualServer(
        scheduler=make_scheduler(settings),
        population=population,
        client_time=ClientTime(settings.client, SCENARIO, population, 0, 0),
        free=InThisOrder(rounds),
        budget=Budget(server_updates=len(rounds) - 1),
        chance=np.random.default_rng(0),
    )
    return server, list(server.server_updates())


def clients(updates: list[ServerUpdate], which: str) -> list[list[int]]:
    return [[late.client for late in getattr(update, which)] for update in updates]


FARE_DUST = FareDustSettings(
    scheduler="fare_dust",
    cohort=1,
    over_selection=2,
    histories=2,
    client=ClientSettings(batch_size=2, epochs=1, optimizer=SGD_1, distillation=0.1),
    server_optimizer=SGD_1,
)
FEAST = FeastSettings(
    scheduler="feast",
    cohort=1,
    over_selection=2,
    tau_max=10,
    decay=0.9,
    kappa=0.5,
    client=ClientSettings(batch_size=2, epochs=1, optimizer=SGD_1),
    server_optimizer=SGD_1,
)
ROUNDS = [[A, B], [C, D], [A, E], [A, C], [A, B], [A, E]]
"""Round 0 starts at 0 and closes at 4 (A); B comes at 7. Round 1: 4 to 9 (C); D would come at 27. Round 2: 9 to 13 (A);
E comes at 15. Round 3: 13 to 17 (A); C comes at 18. Round 4: 17 to 21 (A); B comes at 24."""


def test_fare_dust_adds_what_is_late_to_its_own_round_while_that_is_kept() -> None:
    _, updates = played(FARE_DUST, ROUNDS)
    assert [update.time for update in updates] == [0, 4, 9, 13, 17, 21]
    assert clients(updates, "updates") == [[], [A], [C], [A], [A], [A]]
    # E comes between 13 and 17, C between 17 and 21; D's round 1 is dropped when round 3 closes at 17.
    assert clients(updates, "late") == [[], [], [B], [], [E], [C]]
    assert [[late.version for late in update.late] for update in updates] == [[], [], [0], [], [2], [3]]
    assert [update.dropped for update in updates] == [[], [], [], [], [0], [1]]
    assert all(update.keeps_delta for update in updates[1:])
    assert [update.weights for update in updates[1:]] == [[1.0]] * 5
    totals = updates[-1].totals
    # Only the fast ones count towards the budget, and nothing that came has been wasted.
    assert (totals.client_updates, totals.late_updates, totals.client_trips) == (5, 3, 8)
    assert totals.resource_wasted == 0
    # Steps of two examples: A takes 1, B 2, C 1, E 2.
    assert [update.totals.local_steps for update in updates] == [0, 1, 4, 5, 8, 10]
    assert [update.totals.unique_clients for update in updates] == [0, 1, 3, 3, 4, 4]
    # D's version lives until its round is dropped: from 9 to 17, though nobody else started from it.
    assert [1 in update.settled for update in updates] == [False, False, False, False, False, True]


def test_fare_dust_lets_a_client_whose_round_is_dropped_finish_in_vain() -> None:
    # Rounds 4 and 5 end at 21 and 25; D comes at 27 and is in the seventh round's time.
    server, updates = played(FARE_DUST, [*ROUNDS, [A, C], [A, E]])
    assert [update.time for update in updates[-2:]] == [25, 29]
    assert updates[-2].totals.resource_wasted == 0
    assert updates[-1].totals.resource_wasted == 23
    assert D in server.free.free  # type: ignore[attr-defined]


def test_fare_dust_draws_a_teacher_for_every_client_from_the_rounds_that_are_kept() -> None:
    _, updates = played(FARE_DUST, ROUNDS)
    assert updates[0].teachers == {}
    assert updates[1].teachers == {teacher_id(0): 0}
    kept = [set(), {0}, {0, 1}, {1, 2}, {2, 3}]
    numbers = []
    for update, rounds in zip(updates, kept, strict=False):
        assert set(update.teachers.values()) <= rounds
        numbers += list(update.teachers)
    assert len(set(numbers)) == len(numbers)
    started = [*updates[1].updates, *updates[2].updates, *updates[2].late]
    assert [one.teacher for one in started] == [NO_TEACHER, teacher_id(0), NO_TEACHER]


def test_fare_dusts_teachers_are_drawn_uniformly_over_rounds() -> None:
    settings = FARE_DUST.model_copy(update={"histories": 4, "cohort": 10, "over_selection": 10})
    population = Population(np.ones(40, np.int64), np.zeros(40, bool))
    free = FreeClients(40, np.random.default_rng(0))
    server = VirtualServer(
        scheduler=make_scheduler(settings),
        population=population,
        client_time=ClientTime(settings.client, SCENARIO, population, 0, 0),
        free=free,
        budget=Budget(server_updates=1000),
        chance=np.random.default_rng(0),
    )
    back, round_of = np.zeros(5, int), {}
    for update in server.server_updates():
        if update.version > 5:
            for one in update.updates:
                back[one.version - round_of[one.teacher]] += 1
        round_of |= update.teachers
    # Four rounds share 9,950 draws: 2,487 each, with a standard deviation of 43.
    assert back[0] == 0
    assert np.abs(back[1:] - back.sum() / 4).max() < 5 * 43


def test_feast_closes_rounds_in_their_order_when_all_have_come_or_tau_max_has_passed() -> None:
    _, updates = played(FEAST, ROUNDS)
    assert [update.time for update in updates] == [0, 4, 9, 13, 17, 21]
    assert clients(updates, "late") == [[], [], [B], [], [E], [C]]
    # Round 0 is over at 7 (B). Round 1 at 14, ten seconds after its start, without D; and so round 2, whole at 15.
    assert [update.closed for update in updates] == [[], [], [0], [], [1, 2], [3]]
    # All that came in time count: A; B, C; A; E, A; C, A.
    assert [update.totals.client_updates for update in updates] == [0, 1, 3, 4, 6, 8]
    assert [1 in update.settled for update in updates] == [False, False, False, False, True, False]


def test_feasts_updates_weigh_one_each_in_a_sum() -> None:
    settings = FEAST.model_copy(update={"cohort": 2, "over_selection": 3, "normalization": "sum"})
    _, updates = played(settings, [[A, B, C], [A, C, E], [A, B, C]])
    assert [update.weights for update in updates[1:]] == [[1.0, 1.0], [1.0, 1.0]]
    _, updates = played(settings.model_copy(update={"normalization": "mean"}), [[A, B, C], [A, C, E], [A, B, C]])
    assert [update.weights for update in updates[1:]] == [[0.5, 0.5], [0.5, 0.5]]


def test_feast_without_tau_max_waits_for_the_last() -> None:
    _, updates = played(FEAST.model_copy(update={"tau_max": None}), [*ROUNDS, [A, C], [A, E]])
    # D comes at 27, between 25 and 29; the rounds after it wait for their turn.
    assert [update.closed for update in updates] == [[], [], [0], [], [], [], [], [1, 2, 3, 4, 5]]


def test_feast_whose_tau_max_is_shorter_than_a_round_takes_the_fast_alone() -> None:
    _, updates = played(FEAST.model_copy(update={"tau_max": 1}), ROUNDS[:4])
    assert clients(updates, "late") == [[], [], [], []]
    assert [update.closed for update in updates] == [[], [0], [1], [2]]


def test_feast_without_over_selection_closes_with_the_round() -> None:
    settings = FEAST.model_copy(update={"over_selection": None, "tau_max": None})
    _, updates = played(settings, [[A], [B], [C]])
    assert [update.closed for update in updates] == [[], [0], [1]]


def test_what_can_never_matter_is_told() -> None:
    population, budget = Population(np.ones(9, np.int64), np.zeros(9, bool)), Budget(client_updates=20)
    assert FARE_DUST.mistakes(population, budget) == []
    (told,) = FARE_DUST.model_copy(update={"histories": 21}).mistakes(population, budget)
    assert told.startswith("histories: 21 can never matter, the budget ends after 20 rounds; lower it to 20 or less")
    assert FEAST.mistakes(population, budget) == []
    (told,) = FEAST.mistakes(population, Budget(client_updates=20, virtual_seconds=10))
    assert told.startswith("tau_max: 10 can never matter, the budget ends at 10 virtual seconds")
    (told,) = FEAST.model_copy(update={"over_selection": 1}).mistakes(population, budget)
    assert told.startswith("tau_max: 10 can never matter, every round waits for all its clients")
