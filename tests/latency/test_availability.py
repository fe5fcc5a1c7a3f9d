"""Who is online when, beside a plain reader of the same intervals."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.latency.availability import Availability
from fedhpc.latency.intervals import Intervals

Client = tuple[float, list[tuple[float, float]]]
"""A period, and the intervals in it."""


def availability(clients: list[Client]) -> Availability:
    flat = [interval for _, intervals in clients for interval in intervals]
    begins, ends = np.array(flat, float).reshape(-1, 2).T
    first = np.cumsum([0, *(len(intervals) for _, intervals in clients)])
    return Availability(first, begins.copy(), ends.copy(), np.array([float(period) for period, _ in clients]))


def is_online(client: Client, at: float) -> bool:
    period, intervals = client
    return any(begin <= at % period < end for begin, end in intervals)


def changes(client: Client, after: float) -> list[float]:
    """The seconds in the next twenty periods at which an interval begins or ends, after that second."""
    period, intervals = client
    turns = [(math.floor(after / period) + turn) * period for turn in range(20)]
    return sorted({turn + at for turn in turns for interval in intervals for at in interval if turn + at > after})


def until(client: Client, now: float) -> float:
    return next((at for at in changes(client, now) if not is_online(client, at)), math.inf)


def next_online(clients: list[Client], now: float, among: list[bool]) -> float:
    offline = [client for client, asked in zip(clients, among, strict=True) if asked and not is_online(client, now)]
    return min((at for client in offline for at in changes(client, now) if is_online(client, at)), default=math.inf)


def share(client: Client, start: float, end: float) -> float:
    if end == start:
        return float(is_online(client, start))
    cuts = [start, *(at for at in changes(client, start) if at < end), end]
    return sum(b - a for a, b in pairwise(cuts) if is_online(client, a)) / (end - start)


@st.composite
def a_client(draw: st.DrawFn) -> Client:
    """Whole seconds, so that intervals often adjoin, also across the turn, and moments fall on their ends."""
    period = draw(st.integers(2, 12))
    cuts = sorted(draw(st.sets(st.integers(0, period))))
    kept = draw(st.lists(st.booleans(), min_size=len(cuts), max_size=len(cuts)))
    return period, [(a, b) for (a, b), keep in zip(pairwise(cuts), kept, strict=False) if keep]


CLIENTS = st.lists(a_client(), min_size=1, max_size=5)
HALF_SECONDS = st.integers(0, 80).map(lambda half: half / 2)
"""Many periods of the clients, or less than one."""


@given(CLIENTS, st.lists(st.tuples(HALF_SECONDS, HALF_SECONDS, HALF_SECONDS, st.integers(0, 31)), max_size=8))
def test_as_a_plain_reader_has_it(clients: list[Client], questions: list[tuple[float, float, float, int]]) -> None:
    found, now, everybody = availability(clients), 0.0, np.arange(len(clients))
    assert len(found) == len(clients)
    for pause, ahead, slot, chosen in questions:
        now += pause
        online = [is_online(client, now) for client in clients]
        among = [bool(chosen >> number & 1) for number in range(len(clients))]
        assert found.online(now).tolist() == online
        assert found.next_online(now, np.array(among)) == next_online(clients, now, among)
        for number, client in enumerate(clients):
            if online[number]:
                assert found.until(number, now) == until(client, now)
        # The future may be asked for in any order, by any of the clients, and moves nothing.
        start = now + ahead
        if slot <= 20 * min(period for period, _ in clients):
            expected = [share(client, start, start + slot) for client in clients]
            shares = found.share(everybody, start, start + slot)
            assert shares == pytest.approx(expected, abs=1e-12)
            assert found.share(np.flatnonzero(among), start, start + slot).tolist() == shares[among].tolist()


def test_without_intervals_nobody_ever_is_online() -> None:
    nobody = availability([(10, []), (10, [])])
    everybody = np.ones(2, bool)
    assert not nobody.online(25).any()
    assert nobody.next_online(25, everybody) == math.inf
    assert nobody.share(np.arange(2), 30, 90).tolist() == [0, 0]


@pytest.mark.parametrize("intervals", [[(0, 10)], [(0, 4), (4, 10)]])
def test_a_client_may_be_online_always(intervals: list[tuple[float, float]]) -> None:
    always = availability([(10, intervals)])
    assert always.until(0, 0) == math.inf
    for now in (0, 4, 10, 24.5, 1000):
        assert always.online(now).all()
        assert always.until(0, now) == math.inf
        assert always.share(np.array([0]), now + 3, now + 33) == [1]
        assert always.next_online(now, np.ones(1, bool)) == math.inf


def test_across_the_turn_an_interval_is_one() -> None:
    # 8..10 and 0..3: five seconds from 8 on, of every ten.
    one = availability([(10, [(0, 3), (5, 6), (8, 10)])])
    one.online(8)
    assert one.until(0, 8) == 13
    assert one.until(0, 12.5) == 13
    assert one.share(np.array([0]), 8, 18) == [pytest.approx(0.6)]
    assert one.online(13).tolist() == [False]
    assert one.next_online(13, np.ones(1, bool)) == 15


def test_the_far_future_is_not_gone_through_period_by_period() -> None:
    period, later = 60.0, 6e13
    half = availability([(period, [(0, 10), (20, 40)])])
    assert half.share(np.array([0]), 0, later) == [pytest.approx(0.5)]
    assert half.share(np.array([0]), later + 10, later + 50) == [pytest.approx(0.5)]
    assert half.share(np.array([0]), later + 10, 2 * later + 50) == [pytest.approx(0.5)]
    assert half.until(0, later + 5) == later + 10
    assert half.online(later + 15).tolist() == [False]
    assert half.next_online(later + 15, np.ones(1, bool)) == later + 20
    assert half.until(0, later + 20) == later + 40


def test_until_needs_no_other_question_before_it() -> None:
    intervals: list[tuple[float, float]] = [(0, 3), (3, 5), (8, 10)]
    for now, expected in ((0, 5), (3, 5), (4, 5), (9, 15), (28, 35), (1003, 1005)):
        assert availability([(10, intervals)]).until(0, now) == expected


def test_clients_may_have_periods_of_their_own() -> None:
    two = availability([(10, [(2, 3)]), (7, [(2, 3)])])
    assert [two.online(at).tolist() for at in (2, 9, 12, 16, 72)] == [
        [True, True],
        [False, True],
        [True, False],
        [False, True],
        [True, True],  # 72 = 7 * 10 + 2 = 10 * 7 + 2
    ]


def test_the_turn_of_a_period_without_an_exact_number_leaves_no_gap() -> None:
    period = 0.1 + 0.2
    always = Availability(np.array([0, 2]), np.array([0, 0.1]), np.array([0.1, period]), period)
    now = 0.0
    for _ in range(2000):
        now += 0.077
        assert always.online(now).all()
        assert always.until(0, now) == math.inf


@given(CLIENTS)
def test_lengths_are_those_of_merged_intervals(clients: list[Client]) -> None:
    expected = []
    for period, intervals in clients:
        if all(is_online((period, intervals), second) for second in range(int(period))):
            expected.append(period)
            continue
        for begin in range(int(period)):
            if is_online((period, intervals), begin) and not is_online((period, intervals), begin - 1 + period):
                expected.append(until((period, intervals), begin) - begin)
    found = availability(clients).intervals.lengths()
    assert sorted(found.tolist()) == sorted(expected)


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=8), min_size=1, max_size=5))
def test_merging_leaves_who_is_online_when(clients: list[list[tuple[int, int]]]) -> None:
    overlapping = [(100, sorted((begin, begin + length) for begin, length in spans)) for spans in clients]
    merged = availability(overlapping).intervals.merged()
    for number, client in enumerate(overlapping):
        mine = slice(merged.first[number], merged.first[number + 1])
        begins, ends = merged.begins[mine], merged.ends[mine]
        assert (begins[1:] > ends[:-1]).all()
        online = [bool(((begins <= at) & (at < ends)).any()) for at in range(40)]
        assert online == [is_online(client, at) for at in range(40)]


def test_no_interval_is_merged_with_another_clients() -> None:
    merged = Intervals(np.array([0, 1, 1, 3]), np.array([5.0, 5.0, 6.0]), np.array([9.0, 6.0, 7.0]), 10.0).merged()
    assert merged.first.tolist() == [0, 1, 1, 2]
    assert (merged.begins.tolist(), merged.ends.tolist()) == ([5, 5], [9, 7])
