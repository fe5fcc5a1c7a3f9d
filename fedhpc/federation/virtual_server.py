"""Virtual time: who trains when, and which client updates make which server update.

Nothing here trains. A schedule depends on seed and settings only (law 1), so that it can be played ahead of the
training: when a server update is emitted, its client updates are certain to be used, and only those are ever
computed (law 2).
"""

import math
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.selection import MarkedClients
from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation, ScheduleError, ServerUpdate
from fedhpc.latency.availability import Availability
from fedhpc.latency.forecasts import Forecast

# At equal times arrivals come before those who drop out, and both before timers (law 1).
_ARRIVAL, _DROPOUT, _TIMER = 0, 1, 2

_STARTS_WITHOUT_ARRIVAL = 1_000_000
_ROUNDS_WITHOUT_ARRIVAL = 10_000
_ARRIVALS_AT_ONE_MOMENT = 100_000


@dataclass(kw_only=True)
class VirtualServer(Server):
    """The event loop over arrivals and timers. ``now`` is in virtual seconds; arrival times are drawn at the start.

    Without an ``availability`` clients are always online, and it has a ``forecast`` with it. With one, ``free`` marks
    its clients."""

    client_time: ClientTime
    availability: Availability | None = None
    forecast: Forecast | None = None
    reads_losses: bool = False
    """Whether the scheduler asks for losses: a server update's are to be there when the one after it is asked for."""
    losses: MutableMapping[tuple[int, int], float] = field(default_factory=dict)
    """The mean squared loss of client updates that are aggregated, by (client, participation)."""
    _events: list[tuple[float, int, int, Participation | tuple[int, bool]]] = field(default_factory=list)
    _timers: int = 0

    def _who_can(self, clients: Sequence[int]) -> Sequence[int]:
        work = self.client_time.work_by_deadline
        if work is None:
            return clients
        self.free.give_back([client for client in clients if work(client) is None])
        return [client for client in clients if work(client) is not None]

    def _set_out(self, update: Participation, steps: int | None) -> None:
        update.steps, seconds = self.client_time.of(update.client, update.participation, update.examples, steps)
        by_deadline = self.client_time.work_by_deadline
        if by_deadline is not None:
            work = by_deadline(update.client)
            assert work is not None  # or it would not have been started
            update.coreset, update.whole_epochs = work.coreset, work.whole_epochs
        update.arrives = arrives = self.now + seconds
        if self.availability is not None and (end := self.availability.until(update.client, self.now)) < arrives:
            heappush(self._events, (end, _DROPOUT, update.number, update))
        else:
            heappush(self._events, (arrives, _ARRIVAL, update.number, update))

    def set_timer(self, time: float, token: int, *, is_deadline: bool = True) -> None:
        self._timers += 1
        heappush(self._events, (time, _TIMER, self._timers, (token, is_deadline)))

    def candidates(self) -> NDArray[np.bool_]:
        if self.availability is None:
            return self._marked.copy()
        return self._marked & self.availability.online(self.now)

    def take(self, clients: NDArray[np.int64]) -> None:
        assert isinstance(self.free, MarkedClients)
        self.free.take_these(clients)

    def next_online(self, besides: Sequence[int] = ()) -> float:
        if self.availability is None:
            return math.inf
        among = self._marked.copy()
        among[list(besides)] = False
        return self.availability.next_online(self.now, among)

    def probability(self, clients: NDArray[np.int64], start: float, end: float) -> NDArray[np.float64]:
        if self.forecast is None:
            return np.ones(len(clients))
        return self.forecast.probability(clients, start, end)

    def remaining(self, update: Participation) -> float:
        return update.arrives - self.now

    def loss(self, update: Participation) -> float:
        return self.losses[update.client, update.participation]

    def profile(self) -> list[float]:
        return self.client_time.profile()

    def durations(self) -> NDArray[np.float64]:
        return self.client_time.durations()

    @property
    def deadline(self) -> float | None:
        return self.client_time.deadline

    @property
    def _marked(self) -> NDArray[np.bool_]:
        """Who is free, bool [clients]."""
        assert isinstance(self.free, MarkedClients)
        return self.free.is_free

    def server_updates(self) -> Iterator[ServerUpdate]:
        """Every server update in order, version 0 first, until the budget is spent. Where the scheduler reads losses,
        those of a server update are there before the next one is asked for."""
        self.scheduler.begin(self)
        events = self._events
        end = math.inf if self.budget.virtual_seconds is None else self.budget.virtual_seconds
        fruitless, starts_before, standing = 0, 0, 0
        while True:
            if self._emitted:
                for update in self.take_emitted():
                    yield update
                    if self.spent():
                        return
            if not events:
                if self.availability is not None and math.isinf(self.availability.next_online(self.now, self._marked)):
                    raise ScheduleError(
                        "no client is training and none comes online any more, yet the budget is not spent; give the "
                        "scenario an availability in which clients are online"
                    )
                raise ScheduleError("no client is training and no timer is set, yet the budget is not spent")
            time, kind, _, subject = heappop(events)
            if time > end:
                return
            if isinstance(subject, Participation):
                if subject.stopped:
                    continue
                if kind == _DROPOUT:
                    started = self._starts - starts_before
                    if started > _STARTS_WITHOUT_ARRIVAL:
                        raise ScheduleError(
                            f"{started:,} clients in a row were started and none has uploaded an update before it went "
                            "offline; give clients less work, or the scenario lower latencies or longer availability"
                        )
                    self.now = time
                    self.drop_out(subject)
                    continue
                fruitless, starts_before = 0, self._starts
                standing = standing + 1 if time == self.now else 0
                if standing > _ARRIVALS_AT_ONE_MOMENT and end < math.inf:
                    raise ScheduleError(
                        f"virtual time stands still: {standing:,} clients arrived at second {time:g}, so that "
                        "budget.virtual_seconds is never spent; give the scenario latencies above 0"
                    )
                self.now = time
                self.receive(subject)
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
