"""FedScale's behaviour trace (Lai et al. 2022; of Yang et al. 2020): when each of many phones was charging.

The file is a pickle of {id: {duration, inactive, active, finish_time, model}}. A phone's time is taken modulo its
``finish_time``, and it is online from ``active[i]`` to ``inactive[i]``, seconds both. Here it is so until just before
``inactive[i]``, so that an interval without a length is none, nor one of less than a millisecond, in which nothing can
be done; what lies beyond ``finish_time`` is never reached.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.latency.damaged import DamagedFile, shown
from fedhpc.latency.intervals import Intervals
from fedhpc.latency.plain_pickle import NotPlain, read_plain_pickle
from fedhpc.streams import Purpose, sequential

LEAST_PERIOD = 60.0
"""Seconds: a shorter trace is none."""
_LEAST_INTERVAL = 1e-3
_LARGEST = 1e15
"""Seconds beyond which virtual time cannot be told apart."""


def behaviour(path: Path, clients: int, seed: int, trial: int) -> Intervals:
    """The clients' intervals. Each has a trace: the first clients the first ones in the order of ids, or, where there
    are fewer traces than clients, everybody one at random.

    Raises DamagedFile, and OSError where the file cannot be read.
    """
    status = path.stat()
    traces = _traces(path, status.st_size, status.st_mtime_ns)
    known = len(traces.first) - 1
    chosen = np.arange(clients)
    if clients > known:
        chosen = sequential(seed, trial, Purpose.AVAILABILITY).integers(known, size=clients)
    return _of(traces, chosen)


def _of(traces: Intervals, chosen: NDArray[np.int64]) -> Intervals:
    counts = np.diff(traces.first)[chosen]
    first = np.concatenate([[0], np.cumsum(counts)])
    at = np.arange(first[-1]) + np.repeat(traces.first[chosen] - first[:-1], counts)
    return Intervals(first, traces.begins[at], traces.ends[at], traces.periods[chosen])


@lru_cache(maxsize=2)
def _traces(path: Path, size: int, modified: int) -> Intervals:
    """All of the file's; size and time of change keep a file that was written anew from being taken for the old."""
    try:
        content = read_plain_pickle(path)
    except NotPlain as error:
        raise DamagedFile(str(error)) from None
    if not isinstance(content, dict) or not content:
        raise DamagedFile("it holds no dict of clients; FedScale's is {id: {duration, inactive, active, finish_time}}")
    counts, periods = [], []
    begins: list[float] = []
    ends: list[float] = []
    for client in _in_order(content):
        period, intervals = _trace(client, content[client])
        counts.append(len(intervals))
        periods.append(period)
        for begin, end in intervals:
            begins.append(begin)
            ends.append(end)
    first = np.concatenate([[0], np.cumsum(counts)])
    return Intervals(first, np.array(begins), np.array(ends), np.array(periods)).merged()


def _in_order(content: dict[object, object]) -> list[object]:
    """The ids, numbers by their size."""

    def key(client: object) -> tuple[int, object, str]:
        if _is_number(client):
            return 0, client, ""
        return 1, 0, client if isinstance(client, str) else shown(client)

    return sorted(content, key=key)


def _trace(client: object, trace: object) -> tuple[float, list[tuple[float, float]]]:
    """A client's period, and its intervals in order, which may overlap."""
    if not isinstance(trace, dict):
        raise DamagedFile(f"client {shown(client)} has no dict")
    lacking = [key for key in ("active", "inactive", "finish_time") if key not in trace]
    if lacking:
        raise DamagedFile(f"client {shown(client)} lacks {', '.join(lacking)}")
    finish = trace["finish_time"]
    if not _is_number(finish) or not finish >= LEAST_PERIOD:
        raise DamagedFile(
            f"client {shown(client)} has a finish_time of {shown(finish)}, where {LEAST_PERIOD:g} s are the least and "
            f"{_LARGEST:g} s the most"
        )
    active, inactive = (_moments(client, trace, key) for key in ("active", "inactive"))
    if len(active) != len(inactive):
        raise DamagedFile(f"client {shown(client)} is {len(active)} times active and {len(inactive)} times inactive")
    return float(finish), sorted(_intervals(client, active, inactive, float(finish)))


def _intervals(
    client: object, active: list[float], inactive: list[float], finish: float
) -> Iterator[tuple[float, float]]:
    for begin, end in zip(active, inactive, strict=True):
        if not 0 <= begin <= end:
            raise DamagedFile(f"client {shown(client)} is active from second {begin:g} to {end:g}")
        end = min(end, finish)
        if end - begin >= _LEAST_INTERVAL:
            yield begin, end


def _moments(client: object, trace: dict[object, object], key: str) -> list[float]:
    moments = trace[key]
    if not isinstance(moments, list | tuple) or not all(map(_is_number, moments)):
        raise DamagedFile(f"client {shown(client)}: {key} is no list of seconds")
    return [float(moment) for moment in moments]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
