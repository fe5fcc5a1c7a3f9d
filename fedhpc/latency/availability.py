"""When clients are online: intervals of a period that repeats (RELAY: Abdelmoniem et al. 2021, section 5.1)."""

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedhpc.latency.intervals import Intervals

_Clients = NDArray[np.int64]

_AHEAD = 1000.0
"""Virtual seconds by which the horizon is moved."""


class Availability:
    """The intervals of all clients, as ``Intervals`` has them, and where in them the present is.

    The present never goes back: a call's ``now`` is at or after every earlier one's. The future may be asked for in any
    order.
    """

    def __init__(
        self,
        first: _Clients,
        begins: NDArray[np.float64],
        ends: NDArray[np.float64],
        period: float | NDArray[np.float64],
    ) -> None:
        self.intervals = Intervals(first, begins, ends, period)
        self._first, self._last = first[:-1], first[1:]
        self._begins, self._ends, self._periods = begins, ends, self.intervals.periods
        # Of each client the interval that it is in or that comes next; infinite where it has none.
        self._place = self._first.copy()
        self._turn = np.zeros(len(self._first))  # when the period began that the interval is of
        self._begin = np.full(len(self._first), math.inf)
        self._end = np.full(len(self._first), math.inf)
        some = np.flatnonzero(self._first < self._last)
        self._begin[some], self._end[some] = begins[self._first[some]], ends[self._first[some]]
        self._online = np.zeros(len(self._first), bool)
        self._next = self._begin.copy()
        """When each client goes offline that is online, or comes online that is not."""
        self._horizon = -math.inf
        self._soon = np.empty(0, np.int64)
        """Who does so before the horizon, or did since that was moved: of many clients, few are looked at each time."""

    def __len__(self) -> int:
        return len(self._first)

    def online(self, now: float) -> NDArray[np.bool_]:
        """Who is online, bool [clients]."""
        self._come_to(now)
        return self._online.copy()

    def until(self, client: int, now: float) -> float:
        """The second at which a client goes offline that is online now: infinite where it never does."""
        begins, ends = self._begins, self._ends
        place, turn = int(self._place[client]), float(self._turn[client])
        end = turn + float(ends[place])
        if end <= now:
            turn += float(_whole(now - end, self._periods[client]))
            end = turn + float(ends[place])
        while end <= now:
            place, turn = self._after(client, place, turn)
            end = turn + float(ends[place])
        always = now + 2 * float(self._periods[client])
        while end < always:
            following, its_turn = self._after(client, place, turn)
            if its_turn + float(begins[following]) > end:
                return end
            place, turn = following, its_turn
            end = turn + float(ends[place])
        return math.inf

    def next_online(self, now: float, among: NDArray[np.bool_]) -> float:
        """The first second after now at which one comes online of those ``among`` the clients, bool [clients], who are
        offline; infinite where none will."""
        self._come_to(now)
        return float(np.min(self._next, where=among & ~self._online, initial=math.inf))

    def share(self, clients: _Clients, start: float, end: float) -> NDArray[np.float64]:
        """The share of the time from ``start``, now or later, to ``end`` that each of the clients is online, float64
        [clients]; of a moment, 1 or 0."""
        end = max(start, end)
        # Most stay what they are until then.
        share = self._online.take(clients).astype(np.float64)
        rest = np.flatnonzero(self._next.take(clients) <= end)
        share[rest] = self._measured_share(clients[rest], start, end)
        return share

    def _measured_share(self, clients: _Clients, start: float, end: float) -> NDArray[np.float64]:
        periods, place = self._periods[clients], self._place[clients]
        # Whole periods are not gone through, neither those before the start nor those from it on.
        turn = self._turn[clients] + _whole(np.maximum(start - self._end[clients], 0.0), periods)
        whole = _whole(end - start, periods)
        online = np.zeros(len(clients))
        if whole.any():
            online += whole / periods * self._online_a_period[clients]
        stop = end - whole
        overlap = _holds if start == end else _overlap
        begin, until = turn + self._begins[place], turn + self._ends[place]
        online += overlap(begin, until, start, stop)
        # At ``stop`` itself too, for the sake of a moment that adjoining intervals meet at.
        left = np.flatnonzero(until <= stop)
        place, turn = place[left], turn[left]
        while left.size:
            place, turn = self._all_after(clients[left], place, turn)
            begin, until = turn + self._begins[place], turn + self._ends[place]
            online[left] += overlap(begin, until, start, stop[left])
            going_on = np.flatnonzero(until <= stop[left])
            left, place, turn = left[going_on], place[going_on], turn[going_on]
        return online if end == start else np.minimum(online / (end - start), 1.0)

    @cached_property
    def _online_a_period(self) -> NDArray[np.float64]:
        """Seconds that each client is online in a period of its own, float64 [clients]."""
        seconds = np.zeros(len(self))
        some = np.flatnonzero(self._first < self._last)
        if some.size:
            seconds[some] = np.add.reduceat(self._ends - self._begins, self._first[some])
        return seconds

    def _come_to(self, now: float) -> None:
        if now >= self._horizon:
            self._horizon = now + _AHEAD
            self._soon = np.flatnonzero(self._next < self._horizon)
        changed = self._soon[self._next.take(self._soon) <= now]
        passed = changed[self._end[changed] <= now]
        if (far := passed[now - self._end[passed] >= self._periods[passed]]).size:
            whole = _whole(now - self._end[far], self._periods[far])
            self._move(far, self._place[far], self._turn[far] + whole)
            passed = passed[self._end[passed] <= now]
        while passed.size:
            self._move(passed, *self._all_after(passed, self._place[passed], self._turn[passed]))
            passed = passed[self._end[passed] <= now]
        online = self._begin[changed] <= now
        self._online[changed] = online
        self._next[changed] = np.where(online, self._end[changed], self._begin[changed])

    def _move(self, clients: _Clients, place: _Clients, turn: NDArray[np.float64]) -> None:
        self._place[clients], self._turn[clients] = place, turn
        self._begin[clients], self._end[clients] = turn + self._begins[place], turn + self._ends[place]

    def _after(self, client: int, place: int, turn: float) -> tuple[int, float]:
        """A client's next interval."""
        if place + 1 < self._last[client]:
            return place + 1, turn
        return int(self._first[client]), turn + float(self._periods[client])

    def _all_after(
        self, clients: _Clients, place: _Clients, turn: NDArray[np.float64]
    ) -> tuple[_Clients, NDArray[np.float64]]:
        over = place + 1 == self._last[clients]
        return np.where(over, self._first[clients], place + 1), np.where(over, turn + self._periods[clients], turn)


def _whole(seconds: float | NDArray[np.float64], periods: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part of the seconds that whole periods make up."""
    return np.asarray(np.floor(seconds / periods) * periods)


def _holds(
    begin: NDArray[np.float64], until: NDArray[np.float64], moment: float, _: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Whether each interval holds a moment, as 1 or 0."""
    return ((begin <= moment) & (moment < until)).astype(np.float64)


def _overlap(
    begin: NDArray[np.float64], until: NDArray[np.float64], start: float, stop: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds from ``start`` to ``stop`` within each interval."""
    seconds = np.minimum(until, stop) - np.maximum(begin, start)
    np.maximum(seconds, 0.0, out=seconds)
    return seconds
