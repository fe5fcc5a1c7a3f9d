"""A generated week of availability, labelled so: no trace of phones is small enough to come along.

What RELAY (Abdelmoniem et al. 2021) reports of its trace (Yang et al. 2020; sections 3.3 and C, Figure 14) is its
measure: half of all intervals last at least 5 minutes, 70 % less than 10, the longest hours, and many more clients are
online by night. A client is online while it charges, which it does

- by night, for hours: its own probability a night, its own usual hour of the evening, some minutes more or less;
- by day for minutes, and of ten times that it is plugged in once for longer (1.5 hours, say): at its own rate a day, at
  any moment between two nights.

Night charges and long ones by day all last more than 10 minutes. If they are a share q of all intervals, the
distribution F of the short ones needs (1 - q) F(5 min) = 0.5 and (1 - q) F(10 min) = 0.7, which a log-normal's mu and
sigma solve. No two intervals overlap, so that what was drawn is what clients have.

The week begins at midnight and is everybody's: there are no time zones and no weekends.
"""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from fedhpc.latency.intervals import Intervals
from fedhpc.streams import ParticipationStream, Purpose

WORDS = "generated, not measured: charges by night for hours, and by day for minutes; the week repeats"

DAY = 86_400.0
NIGHTS = 7
WEEK = NIGHTS * DAY
_MINUTE, _HOUR = 60.0, 3600.0

_NIGHTS_A_WEEK = 0.6 * NIGHTS
_BY_DAY = 3.0
"""Times a day that a client is plugged in between two nights, on average."""
_LONG_BY_DAY = 0.1
_LONG_MU, _LONG_SIGMA, _LEAST_LONG = math.log(1.5 * _HOUR), 0.5, 15 * _MINUTE
"""The long ones are exp(_LONG_MU + _LONG_SIGMA z) seconds, but _LEAST_LONG at least."""

_PLUG_INS = _BY_DAY * NIGHTS
SHARE_LONG = (_NIGHTS_A_WEEK + _LONG_BY_DAY * _PLUG_INS) / (_NIGHTS_A_WEEK + _PLUG_INS)
"""Of all intervals, those that last more than 10 minutes whatever is drawn."""

_AT_5, _AT_10 = (NormalDist().inv_cdf(share / (1 - SHARE_LONG)) for share in (0.5, 0.7))
SIGMA = math.log(10 / 5) / (_AT_10 - _AT_5)
MU = math.log(5 * _MINUTE) - SIGMA * _AT_5
"""The short charges are exp(MU + SIGMA z) seconds, z standard normal."""

_Charges = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Of which client, begins and ends."""

_BLOCK = 4096
"""Clients drawn at a time; part of the numbers."""
_HABITS, _LIVED, _PAST = 0, 1, 2
"""What a block's streams are for."""


def generate(clients: int, seed: int, trial: int, *, past: bool = False) -> Intervals:
    """The week that the clients of a trial live through, or the ``past`` one: other draws, by the same habits.

    A client's week depends on seed, trial and its number only, and not on how many clients there are.
    """
    stream = ParticipationStream(seed, trial, Purpose.AVAILABILITY)
    counts, begins, ends = [], [], []
    for block in range(-(-clients // _BLOCK)):
        wanted = min(_BLOCK, clients - block * _BLOCK)
        count, begin, end = _block(stream.own(block, _HABITS), stream.own(block, _PAST if past else _LIVED))
        counts.append(count[:wanted])
        kept = int(counts[-1].sum())
        begins.append(begin[:kept])
        ends.append(end[:kept])
    first = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return Intervals(first, np.concatenate(begins), np.concatenate(ends), WEEK)


def _block(
    habits: np.random.Generator, week: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """A block's clients: how many intervals each has (int64 [_BLOCK]), and all begins and ends, client by client."""
    each, nightly = (_BLOCK, 1), (_BLOCK, NIGHTS)
    charges_by_night = habits.beta(0.6, 0.4, each)  # 0.6 on average: most do nearly every night or hardly ever
    evening = np.clip(habits.normal(22.5, 1.5, each), 19, 26) * _HOUR
    usual_night = habits.lognormal(math.log(6 * _HOUR), 0.25, each)
    a_day = _BY_DAY * habits.gamma(4, 1 / 4, each)

    # Nights: at their evening of each day, half an hour more or less; the day begins after, charged or not.
    shift = np.clip(week.normal(0, 0.5 * _HOUR, nightly), -2 * _HOUR, 2 * _HOUR)
    lasting = np.clip(usual_night * week.lognormal(0, 0.2, nightly), _HOUR, 12 * _HOUR)
    charges = week.random(nightly) < charges_by_night
    dusk = np.arange(NIGHTS) * DAY + evening + shift
    dawn = dusk + lasting

    # Days: from each dawn to the next dusk, the last one's lying beyond the week's end.
    next_dusk = np.concatenate([dusk[:, 1:], dusk[:, :1] + WEEK], axis=1)
    daylight = (next_dusk - dawn).ravel()
    plugged = week.poisson(a_day, nightly).ravel()
    day = np.repeat(np.arange(_BLOCK * NIGHTS), plugged)
    long = week.random(len(day)) < _LONG_BY_DAY
    seconds = np.exp(np.where(long, _LONG_MU, MU) + np.where(long, _LONG_SIGMA, SIGMA) * week.standard_normal(len(day)))
    seconds[long] = np.maximum(seconds[long], _LEAST_LONG)
    # With a second between them. A day that is too short for all of its charges shortens them (one of some 100,000).
    taken = np.bincount(day, seconds + 1, len(daylight))
    seconds *= np.minimum(1, 0.9 * (daylight - plugged - 1) / np.maximum(taken, 1))[day]
    taken = np.bincount(day, seconds + 1, len(daylight))
    # What is left of the day lies between the charges at random: as uniform numbers in ascending order divide it.
    between = np.sort(day + week.random(len(day))) - day
    before = np.cumsum(seconds + 1) - (seconds + 1)
    of_its_day = before - np.concatenate([[0.0], np.cumsum(taken)])[day]
    begin = dawn.ravel()[day] + between * (daylight - taken)[day] + of_its_day

    night = np.nonzero(charges)[0]
    kinds = [(night, dusk[charges], lasting[charges]), (day // NIGHTS, begin, seconds)]
    return _within_the_week([(client, begins, begins + lengths) for client, begins, lengths in kinds])


def _within_the_week(
    kinds: list[_Charges],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """All charges client by client and in order, with what lies beyond the week's end at its begin; one that ends
    beyond it is two."""
    parts = []
    for client, begins, ends in kinds:
        beyond, over = begins >= WEEK, (begins < WEEK) & (ends > WEEK)
        parts.append((client[~beyond], begins[~beyond], np.minimum(ends[~beyond], WEEK)))
        parts.append((client[beyond], begins[beyond] - WEEK, ends[beyond] - WEEK))
        parts.append((client[over], np.zeros(np.count_nonzero(over)), ends[over] - WEEK))
    client, begins, ends = (np.concatenate(each) for each in zip(*parts, strict=True))
    # Each part is in order already, which this sort makes use of. A client's key has room to be rounded up.
    order = np.argsort(client * (WEEK + 1) + begins, kind="stable")
    return np.bincount(client, minlength=_BLOCK), begins[order], ends[order]
