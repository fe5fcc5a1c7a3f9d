"""Virtual time: who trains when, and which client updates make which server update.

Nothing here trains. A schedule depends on seed and settings only (law 1), so that it can be played ahead of the
training: when a server update is emitted, its client updates are certain to be used, and only those are ever
computed (law 2).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal, Protocol

import numpy as np

from fedhpc.budget import Budget
from fedhpc.clients.work import NO_TEACHER, teacher_id
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.federation.selection import FreeClients

# At equal times arrivals come before timers (law 1).
_ARRIVAL, _TIMER = 0, 1

_STARTS_WITHOUT_ARRIVAL = 1_000_000
_ROUNDS_WITHOUT_ARRIVAL = 10_000
_ARRIVALS_AT_ONE_MOMENT = 100_000


class ScheduleError(Exception):
    """A schedule that would never end."""


@dataclass(slots=True, eq=False)
class Participation:
    """One client's one round trip. ``number`` counts all starts of a run; ``participation`` those of this client.

    ``started`` and ``arrives`` are virtual seconds; ``version`` is the server version that the client downloads and
    ``teacher`` the id of the vector that it is distilled from. It was ``stopped`` if it ends before it arrives, and
    ``given_up`` if its update will not be used.
    """

    number: int
    client: int
    participation: int
    version: int
    examples: int
    steps: int
    started: float
    arrives: float
    teacher: int = NO_TEACHER
    stopped: bool = False
    given_up: bool = False


@dataclass(slots=True)
class Totals:
    """What a run has come to: counts, and learner seconds.

    ``client_updates`` were aggregated; ``late_updates`` came after their round's server update and were still added to
    its delta; ``local_steps`` is the mini-batches of both; ``client_trips`` were uploaded. ``resource_used`` is all
    time that clients spent, ``resource_wasted`` the part whose update was never used. ``unique_clients`` counts clients
    with an update used.
    """

    server_updates: int = 0
    client_updates: int = 0
    late_updates: int = 0
    client_trips: int = 0
    local_steps: int = 0
    resource_used: float = 0.0
    resource_wasted: float = 0.0
    unique_clients: int = 0

    def copy(self) -> "Totals":
        return Totals(
            self.server_updates,
            self.client_updates,
            self.late_updates,
            self.client_trips,
            self.local_steps,
            self.resource_used,
            self.resource_wasted,
            self.unique_clients,
        )


@dataclass(slots=True)
class ServerUpdate:
    """Version ``version`` comes to be at virtual second ``time`` from ``updates`` (in arrival order) by ``weights``.

    Version 0 is the initial model, made of no updates. ``totals`` are those after this update. ``settled`` are versions
    from which, since the server update before, the last open client update was used or given up.

    A round is named by the version that its clients start from. ``late`` are updates, in arrival order, that since the
    server update before were added to their round's delta, each with weight 1. ``keeps_delta``: this update's own delta
    is kept for late ones. ``closed`` are rounds, in their order, whose deltas became final, and ``dropped`` those that
    nobody will ask for any more. ``teachers`` says which round's delta each teacher is made of that clients which start
    from this version are distilled from, by the teacher's id. ``moves_to_clients``: the global model moves to the
    clients' models rather than along their deltas (FedAsync). ``tree_step`` counts (tree, server updates in it) from
    (0, 1), where noise comes from trees.
    """

    version: int
    time: float
    updates: list[Participation]
    weights: list[float]
    totals: Totals
    settled: list[int]
    late: list[Participation] = field(default_factory=list)
    keeps_delta: bool = False
    closed: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    teachers: dict[int, int] = field(default_factory=dict)
    moves_to_clients: bool = False
    tree_step: tuple[int, int] = (0, 0)


class Scheduler(Protocol):
    """The policy: whom to start, when, and when to aggregate. It acts through the server that it is handed."""

    def begin(self, server: "VirtualServer") -> None:
        """Virtual time starts."""

    def arrived(self, server: "VirtualServer", update: Participation) -> None:
        """A client update has been uploaded."""

    def timer(self, server: "VirtualServer", token: int) -> None:
        """A timer set with this token has run out."""


@dataclass
class VirtualServer:
    """The event loop over arrivals and timers. Schedulers use ``select``, ``start``, ``stop``, ``aggregate``, and those
    that hear late clients ``add_late``, ``give_up``, ``open_round``, ``close_round`` and ``drop_delta``."""

    scheduler: Scheduler
    population: Population
    client_time: ClientTime
    free: FreeClients
    budget: Budget
    chance: np.random.Generator
    """What the scheduler draws from."""
    distils: bool = False
    """Whether clients have a teacher; unless the scheduler says otherwise, it is the model that they download."""

    now: float = 0.0
    version: int = 0
    totals: Totals = field(default_factory=Totals)
    participations: dict[int, int] = field(default_factory=dict)
    aggregated: dict[int, int] = field(default_factory=dict)
    open_updates: dict[int, int] = field(default_factory=dict)
    """Version -> updates that started from it and may still be aggregated."""

    _events: list[tuple[float, int, int, Participation | tuple[int, bool]]] = field(default_factory=list)
    _emitted: list[ServerUpdate] = field(default_factory=list)
    _newest: ServerUpdate = field(init=False)
    _settled: list[int] = field(default_factory=list)
    _late: list[Participation] = field(default_factory=list)
    _closed: list[int] = field(default_factory=list)
    _dropped: list[int] = field(default_factory=list)
    _starts: int = 0
    _timers: int = 0
    _teachers: int = 0

    def __post_init__(self) -> None:
        self._newest = ServerUpdate(0, 0.0, [], [], self.totals.copy(), [])
        self._examples = self.population.examples.item

    # What a scheduler does.

    def select(self, count: int) -> list[int]:
        """``count`` clients drawn uniformly without replacement from those that are free: whose update is neither
        under way nor waiting to be aggregated (FedBuff, appendix D).

        Raises ScheduleError where fewer are free.
        """
        try:
            return self.free.take(count)
        except IndexError as error:
            raise ScheduleError(f"{error}; ask for fewer at a time, or give the task more clients") from None

    def start(self, clients: Sequence[int], rounds: Sequence[int | None] | None = None) -> list[Participation]:
        """The clients download the current version and train; their arrival times are drawn. ``rounds``: whose delta
        each one's teacher is made of, None for no teacher."""
        started = []
        version, now, number = self.version, self.now, self._starts
        participations, events, time_of = self.participations, self._events, self.client_time.of
        own_model = version if self.distils else NO_TEACHER
        for client in clients:
            participation = participations.get(client, 0)
            participations[client] = participation + 1
            examples = self._examples(client)
            steps, seconds = time_of(client, participation, examples)
            arrives = now + seconds
            update = Participation(number, client, participation, version, examples, steps, now, arrives, own_model)
            heappush(events, (arrives, _ARRIVAL, number, update))
            started.append(update)
            number += 1
        self._starts = number
        if rounds is not None:
            self._assign_teachers(started, rounds)
        self.open_updates[version] = self.open_updates.get(version, 0) + len(started)
        return started

    def stop(self, updates: Sequence[Participation]) -> None:
        """Tells clients under way to stop: what they spent until now is wasted, and they are free again."""
        for update in updates:
            update.stopped = True
            spent = self.now - update.started
            self.totals.resource_used += spent
            self.totals.resource_wasted += spent
        self._close(updates)

    def give_up(self, updates: Sequence[Participation]) -> None:
        """Clients under way go on, but their updates will not be used: their time is wasted when they arrive."""
        for update in updates:
            update.given_up = True
        self._settle(updates)

    def set_timer(self, time: float, token: int, *, is_deadline: bool = True) -> None:
        """Asks for ``scheduler.timer(token)`` at that virtual second. A run in which only deadlines pass is ended."""
        self._timers += 1
        heappush(self._events, (time, _TIMER, self._timers, (token, is_deadline)))

    def mean_weights(self, updates: Sequence[Participation], weighting: Literal["examples", "uniform"]) -> list[float]:
        """Weights that sum to one: by the examples a client holds, or equal. All zero where nobody has an example."""
        if weighting == "uniform":
            return [1.0 / len(updates)] * len(updates)
        total = sum(update.examples for update in updates)
        return [update.examples / total if total else 0.0 for update in updates]

    def aggregate(
        self,
        updates: list[Participation],
        weights: list[float],
        *,
        keeps_delta: bool = False,
        moves_to_clients: bool = False,
    ) -> None:
        """A server update: the next version is this one less the server optimiser's step along
        ``sum(weight * delta)``, summed in the order given. The lists are the server update's from now on.

        ``keeps_delta``: late updates may still be added to ``sum(delta)``; the weights are then all the same.
        ``moves_to_clients``: the step is along ``sum(weight * (w - w_client))`` instead.
        """
        self.version += 1
        self.totals.server_updates += 1
        self.totals.client_updates += len(updates)
        self._use(updates)
        self._newest = ServerUpdate(
            self.version,
            self.now,
            updates,
            weights,
            self.totals.copy(),
            self._settled,
            self._late,
            keeps_delta,
            self._closed,
            self._dropped,
            moves_to_clients=moves_to_clients,
        )
        self._emitted.append(self._newest)
        self._settled, self._late, self._closed, self._dropped = [], [], [], []

    def add_late(self, update: Participation, *, counts: bool) -> None:
        """An update that came after its round's server update is added to the round's delta. ``counts``: it is a client
        update aggregated, as far as the budget is concerned."""
        self.totals.late_updates += 1
        self.totals.client_updates += counts
        self._use([update])
        self._late.append(update)

    def open_round(self) -> None:
        """The clients that start from the current version are a round that will be closed: the version is kept for
        that."""
        self.open_updates[self.version] = self.open_updates.get(self.version, 0) + 1

    def close_round(self, start: int) -> None:
        """The delta of the round that started from version ``start`` is final, and the output model is to take it."""
        self._closed.append(start)
        self._settle_one(start)

    def drop_delta(self, start: int) -> None:
        """Nobody will ask for the delta of the round that started from version ``start`` any more."""
        self._dropped.append(start)

    # What drives it.

    def server_updates(self) -> Iterator[ServerUpdate]:
        """Every server update in order, version 0 first, until the budget is spent."""
        self._emitted.append(self._newest)
        self.scheduler.begin(self)
        events, emitted, totals = self._events, self._emitted, self.totals
        end = math.inf if self.budget.virtual_seconds is None else self.budget.virtual_seconds
        fruitless, starts_before, standing = 0, 0, 0
        while True:
            if emitted:
                for update in emitted:
                    yield update
                    if self._spent():
                        return
                emitted.clear()
            if not events:
                raise ScheduleError("no client is training and no timer is set, yet the budget is not spent")
            time, _, _, subject = heappop(events)
            if time > end:
                return
            if isinstance(subject, Participation):
                if subject.stopped:
                    continue
                fruitless, starts_before = 0, self._starts
                standing = standing + 1 if time == self.now else 0
                if standing > _ARRIVALS_AT_ONE_MOMENT and end < math.inf:
                    raise ScheduleError(
                        f"virtual time stands still: {standing:,} clients arrived at second {time:g}, so that "
                        "budget.virtual_seconds is never spent; give the scenario latencies above 0"
                    )
                self.now = time
                totals.client_trips += 1
                totals.resource_used += time - subject.started
                if subject.given_up:
                    totals.resource_wasted += time - subject.started
                    self.free.give_back([subject.client])
                else:
                    self.scheduler.arrived(self, subject)
            else:
                token, is_deadline = subject
                fruitless += is_deadline
                started = self._starts - starts_before
                if fruitless >= _ROUNDS_WITHOUT_ARRIVAL or (fruitless > 1 and started > _STARTS_WITHOUT_ARRIVAL):
                    raise ScheduleError(
                        f"{fruitless:,} deadlines passed in a row without an arrival of one of {started:,} clients; "
                        "raise the algorithm's deadline"
                    )
                self.now = time
                self.scheduler.timer(self, token)

    def _spent(self) -> bool:
        budget, totals = self.budget, self.totals
        return (
            (budget.client_updates is not None and totals.client_updates >= budget.client_updates)
            or (budget.client_trips is not None and totals.client_trips >= budget.client_trips)
            or (budget.server_updates is not None and totals.server_updates >= budget.server_updates)
        )

    def _assign_teachers(self, started: Sequence[Participation], rounds: Sequence[int | None]) -> None:
        """One teacher for all that start now and are distilled by the same round's delta."""
        of_round: dict[int, int] = {}
        for update, past in zip(started, rounds, strict=True):
            if past is None:
                update.teacher = NO_TEACHER
                continue
            if past not in of_round:
                of_round[past] = teacher_id(self._teachers)
                self._teachers += 1
            update.teacher = of_round[past]
        self._newest.teachers |= {teacher: past for past, teacher in of_round.items()}

    def _use(self, updates: Sequence[Participation]) -> None:
        """They go into the server's model, now or by their round's delta, and the clients are free."""
        aggregated, steps = self.aggregated, 0
        for update in updates:
            aggregated[update.client] = aggregated.get(update.client, 0) + 1
            steps += update.steps
        self.totals.local_steps += steps
        self.totals.unique_clients = len(aggregated)
        self._close(updates)

    def _close(self, updates: Sequence[Participation]) -> None:
        """Their fate is settled, and the clients are free."""
        self.free.give_back([update.client for update in updates])
        self._settle(updates)

    def _settle(self, updates: Sequence[Participation]) -> None:
        """The versions that they started from have fewer reasons to live."""
        for update in updates:
            self._settle_one(update.version)

    def _settle_one(self, version: int) -> None:
        left = self.open_updates[version] - 1
        if left:
            self.open_updates[version] = left
        else:
            del self.open_updates[version]
            self._settled.append(version)
