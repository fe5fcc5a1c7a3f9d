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

from fedhpc.budget import Budget
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

    ``started`` and ``arrives`` are virtual seconds; ``version`` is the server version that the client downloads.
    """

    number: int
    client: int
    participation: int
    version: int
    examples: int
    steps: int
    started: float
    arrives: float
    stopped: bool = False


@dataclass(slots=True)
class Totals:
    """What a run has come to: counts, and learner seconds.

    ``client_updates`` were aggregated and ``local_steps`` is their mini-batches; ``client_trips`` were uploaded.
    ``resource_used`` is all time that clients spent, ``resource_wasted`` the part whose update was never used.
    ``unique_clients`` counts clients with an update aggregated.
    """

    server_updates: int = 0
    client_updates: int = 0
    client_trips: int = 0
    local_steps: int = 0
    resource_used: float = 0.0
    resource_wasted: float = 0.0
    unique_clients: int = 0

    def copy(self) -> "Totals":
        return Totals(
            self.server_updates,
            self.client_updates,
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
    from which, since the server update before, the last open client update was aggregated or stopped.
    """

    version: int
    time: float
    updates: list[Participation]
    weights: list[float]
    totals: Totals
    settled: list[int]


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
    """The event loop over arrivals and timers. Schedulers use ``select``, ``start``, ``stop``, ``aggregate``."""

    scheduler: Scheduler
    population: Population
    client_time: ClientTime
    free: FreeClients
    budget: Budget

    now: float = 0.0
    version: int = 0
    totals: Totals = field(default_factory=Totals)
    participations: dict[int, int] = field(default_factory=dict)
    aggregated: dict[int, int] = field(default_factory=dict)
    open_updates: dict[int, int] = field(default_factory=dict)
    """Version -> updates that started from it and may still be aggregated."""

    _events: list[tuple[float, int, int, Participation | int]] = field(default_factory=list)
    _emitted: list[ServerUpdate] = field(default_factory=list)
    _settled: list[int] = field(default_factory=list)
    _starts: int = 0
    _timers: int = 0

    def __post_init__(self) -> None:
        self._examples = self.population.examples.item

    # What a scheduler does.

    def select(self, count: int) -> list[int]:
        """``count`` clients drawn uniformly without replacement from those that are free: whose update is neither
        under way nor waiting to be aggregated (FedBuff, appendix D)."""
        return self.free.take(count)

    def start(self, clients: Sequence[int]) -> list[Participation]:
        """The clients download the current version and train; their arrival times are drawn."""
        started = []
        version, now, number = self.version, self.now, self._starts
        participations, events, time_of = self.participations, self._events, self.client_time.of
        for client in clients:
            participation = participations.get(client, 0)
            participations[client] = participation + 1
            examples = self._examples(client)
            steps, seconds = time_of(client, participation, examples)
            arrives = now + seconds
            update = Participation(number, client, participation, version, examples, steps, now, arrives)
            heappush(events, (arrives, _ARRIVAL, number, update))
            started.append(update)
            number += 1
        self._starts = number
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

    def set_timer(self, time: float, token: int) -> None:
        """Asks for ``scheduler.timer(token)`` at that virtual second."""
        self._timers += 1
        heappush(self._events, (time, _TIMER, self._timers, token))

    def mean_weights(self, updates: Sequence[Participation], weighting: Literal["examples", "uniform"]) -> list[float]:
        """Weights that sum to one: by the examples a client holds, or equal. All zero where nobody has an example."""
        if weighting == "uniform":
            return [1.0 / len(updates)] * len(updates)
        total = sum(update.examples for update in updates)
        return [update.examples / total if total else 0.0 for update in updates]

    def aggregate(self, updates: list[Participation], weights: list[float]) -> None:
        """A server update: the next version is this one less the server optimiser's step along
        ``sum(weight * delta)``, summed in the order given. The lists are the server update's from now on."""
        self.version += 1
        aggregated, steps = self.aggregated, 0
        for update in updates:
            aggregated[update.client] = aggregated.get(update.client, 0) + 1
            steps += update.steps
        totals = self.totals
        totals.server_updates += 1
        totals.client_updates += len(updates)
        totals.local_steps += steps
        totals.unique_clients = len(aggregated)
        self._close(updates)
        self._emitted.append(ServerUpdate(self.version, self.now, updates, weights, totals.copy(), self._settled))
        self._settled = []

    # What drives it.

    def server_updates(self) -> Iterator[ServerUpdate]:
        """Every server update in order, version 0 first, until the budget is spent."""
        yield ServerUpdate(0, 0.0, [], [], self.totals.copy(), [])
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
                self.scheduler.arrived(self, subject)
            else:
                fruitless += 1
                started = self._starts - starts_before
                if fruitless >= _ROUNDS_WITHOUT_ARRIVAL or (fruitless > 1 and started > _STARTS_WITHOUT_ARRIVAL):
                    raise ScheduleError(
                        f"{fruitless:,} deadlines passed in a row without an arrival of one of {started:,} clients; "
                        "raise the algorithm's deadline"
                    )
                self.now = time
                self.scheduler.timer(self, subject)

    def _spent(self) -> bool:
        budget, totals = self.budget, self.totals
        return (budget.client_updates is not None and totals.client_updates >= budget.client_updates) or (
            budget.server_updates is not None and totals.server_updates >= budget.server_updates
        )

    def _close(self, updates: Sequence[Participation]) -> None:
        """Their fate is settled: the clients are free, and the versions have fewer reasons to live."""
        self.free.give_back([update.client for update in updates])
        open_updates = self.open_updates
        for update in updates:
            version = update.version
            left = open_updates[version] - 1
            if left:
                open_updates[version] = left
            else:
                del open_updates[version]
                self._settled.append(version)
