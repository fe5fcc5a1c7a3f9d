"""The seconds at which clients come online and go offline again."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Intervals(NamedTuple):
    """The intervals of all clients within their period, which repeats from second 0 on.

    Those of client i lie at ``first[i]:first[i + 1]`` (int64 [clients + 1]) of ``begins`` and ``ends`` (float64), in
    virtual seconds from its period's begin: ascending, not overlapping, none empty, all within 0..``period``, which is
    one for all clients or float64 [clients]. A client is online from an interval's begin until just before its end. An
    interval that ends with the period and one that begins with it are one across the turn.
    """

    first: NDArray[np.int64]
    begins: NDArray[np.float64]
    ends: NDArray[np.float64]
    period: float | NDArray[np.float64]

    @property
    def owner(self) -> NDArray[np.int64]:
        """Whose each interval is, int64 [intervals]."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def periods(self) -> NDArray[np.float64]:
        """Each client's period, float64 [clients]; not to be written to."""
        return np.broadcast_to(np.float64(self.period), len(self.first) - 1)

    def lengths(self) -> NDArray[np.float64]:
        """How many seconds clients stay online once they are, a number for each interval; what adjoins is one, across
        the turn as well. Of a client who is always online, its period."""
        seconds = self.ends - self.begins
        if not len(seconds):
            return seconds
        owner, periods = self.owner, self.periods
        # Where an interval goes on from the one before it in the array.
        goes_on = np.zeros(len(seconds), bool)
        goes_on[1:] = (owner[1:] == owner[:-1]) & (self.begins[1:] == self.ends[:-1])
        run = np.cumsum(~goes_on) - 1
        runs = np.bincount(run, seconds).astype(np.float64)
        some = np.flatnonzero(self.first[:-1] < self.first[1:])
        opening, closing = self.first[some], self.first[some + 1] - 1
        across = (self.begins[opening] == 0) & (self.ends[closing] == periods[some]) & (run[opening] != run[closing])
        runs[run[closing[across]]] += runs[run[opening[across]]]
        kept = np.ones(len(runs), bool)
        kept[run[opening[across]]] = False
        return runs[kept]

    def merged(self) -> "Intervals":
        """The same with what overlaps or adjoins in one interval; these may overlap, in ascending order of their
        begins."""
        if not len(self.begins):
            return self
        owner = self.owner
        # How far a client's intervals so far reach, by ranks among all ends: whole numbers, so that nothing is rounded.
        known, rank = np.unique(self.ends, return_inverse=True)
        reach = known[np.maximum.accumulate(owner * len(known) + rank) % len(known)]
        new = np.ones(len(owner), bool)
        new[1:] = (owner[1:] != owner[:-1]) | (self.begins[1:] > reach[:-1])
        at = np.flatnonzero(new)
        ends = np.maximum.reduceat(self.ends, at)
        first = np.concatenate([[0], np.cumsum(np.bincount(owner[at], minlength=len(self.first) - 1))])
        return Intervals(first, self.begins[at], ends, self.period)
