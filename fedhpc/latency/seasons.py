"""A forecast from a client's own past: how much of each hour of the day it was online.

RELAY (Abdelmoniem et al. 2021, section 5.2) fits Prophet on half of each device's charging states and measures on the
other half. What such a series has that repeats is the day, so that this one is a plain estimate of it: for each client
and each of 24 hours, the share of the time that it was online, smoothed over the hours around it (weights 1, 2, 1).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedhpc.latency.intervals import Intervals

_HOUR, _HOURS, _DAY = 3600.0, 24, 86_400.0
_BLOCK = 2**14
_SAMPLE_SECONDS = 600.0
MOST_MEASURED = 1000


class Seasons:
    """A client's probability to be online by the hour of its own day, which begins with its period, at second 0.

    Fitted on ``past``, whose period is how long each client was watched. ``periods``: after how many seconds each
    client's own time begins again, float64 [clients].
    """

    def __init__(self, past: Intervals, periods: NDArray[np.float64]) -> None:
        self._periods = periods
        self.rates = _rates(past)

    def probability(self, clients: NDArray[np.int64], start: float, end: float) -> NDArray[np.float64]:
        """As ``Forecast`` has it: the mean over the slot."""
        seconds = max(0.0, end - start)
        at = np.mod(start, self._periods[clients])
        hour = np.floor(at / _HOUR).astype(np.int64)
        if not seconds:
            return self.rates[clients, hour % _HOURS].astype(np.float64)
        days, left = divmod(seconds, _DAY)
        online = days * _HOUR * self.rates[clients].sum(axis=1, dtype=np.float64) if days else np.zeros(len(clients))
        rest = np.full(len(clients), left)
        into = at - hour * _HOUR
        while (rest > 0).any():
            piece = np.minimum(_HOUR - into, rest)
            online += self.rates[clients, hour % _HOURS] * piece
            rest -= piece
            hour += 1
            into = np.zeros(len(clients))
        probability: NDArray[np.float64] = np.minimum(online / seconds, 1.0)
        return probability


class Accuracy(NamedTuple):
    """Coefficient of determination, mean square error and mean absolute error of a forecast, averaged over ``clients``;
    the first over those of them whose state changes."""

    r2: float
    mse: float
    mae: float
    clients: int


def first_half(intervals: Intervals) -> Intervals:
    """What a client was seen to do in the first half of its period."""
    watched = intervals.periods / 2
    owner = intervals.owner
    seen = np.flatnonzero(intervals.begins < watched[owner])
    counts = np.bincount(owner[seen], minlength=len(watched))
    ends = np.minimum(intervals.ends[seen], watched[owner[seen]])
    return Intervals(np.concatenate([[0], np.cumsum(counts)]), intervals.begins[seen], ends, watched)


def accuracy(seasons: Seasons, truth: Intervals, since: NDArray[np.float64]) -> Accuracy:
    """Of the forecast beside what the clients did from the second ``since`` of their period, float64 [clients], to its
    end: sampled every ten minutes, of at most 1,000 clients, evenly spread over all."""
    size = len(since)
    chosen = np.unique(np.linspace(0, size - 1, min(size, MOST_MEASURED)).astype(np.int64))
    found = []
    for client in chosen.tolist():
        times = np.arange(since[client], truth.periods[client], _SAMPLE_SECONDS)
        mine = slice(truth.first[client], truth.first[client + 1])
        last = np.searchsorted(truth.begins[mine], times, side="right") - 1
        online = (last >= 0) & (times < np.append(truth.ends[mine], 0.0)[last])
        error = seasons.rates[client, (times // _HOUR).astype(np.int64) % _HOURS] - online
        spread = float(np.var(online))
        mse = float(np.mean(error**2))
        found.append((1 - mse / spread if spread else np.nan, mse, float(np.mean(np.abs(error)))))
    r2, mse, mae = np.array(found).T
    changing = r2[~np.isnan(r2)]
    return Accuracy(
        float(changing.mean()) if len(changing) else float("nan"), float(mse.mean()), float(mae.mean()), len(chosen)
    )


def _rates(past: Intervals) -> NDArray[np.float32]:
    """[clients, hours]; of an hour that was not watched, and none beside it, the client's share of all its time."""
    clients = len(past.first) - 1
    rates = np.empty((clients, _HOURS), np.float32)
    days, rest = np.divmod(past.periods, _DAY)
    for start in range(0, clients, _BLOCK):
        block = slice(start, min(start + _BLOCK, clients))
        online = _by_the_hour(past, block)
        watched = days[block, None] * _HOUR + np.clip(rest[block, None] - np.arange(_HOURS) * _HOUR, 0, _HOUR)
        overall = online.sum(axis=1, keepdims=True) / watched.sum(axis=1, keepdims=True)
        online, watched = _smooth(online), _smooth(watched)
        rates[block] = np.where(watched > 0, online / np.maximum(watched, 1e-9), overall)
    return np.minimum(rates, 1, out=rates)


def _by_the_hour(past: Intervals, block: slice) -> NDArray[np.float64]:
    """Seconds online of the block's clients at each hour of the day, float64 [clients, hours]."""
    begin, end = past.first[block.start], past.first[block.stop]
    begins, ends = past.begins[begin:end], past.ends[begin:end]
    owner = np.repeat(np.arange(block.stop - block.start), np.diff(past.first[block.start : block.stop + 1]))
    hour = np.floor(begins / _HOUR).astype(np.int64)
    pieces = np.ceil(ends / _HOUR).astype(np.int64) - hour
    of = np.repeat(np.arange(len(begins)), pieces)
    hour = hour[of] + np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    seconds = np.minimum(ends[of], (hour + 1) * _HOUR) - np.maximum(begins[of], hour * _HOUR)
    cells = owner[of] * _HOURS + hour % _HOURS
    total = np.bincount(cells, seconds, (block.stop - block.start) * _HOURS).astype(np.float64)
    return total.reshape(-1, _HOURS)


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    around: NDArray[np.float64] = np.roll(values, 1, axis=1) + 2 * values + np.roll(values, -1, axis=1)
    return around
