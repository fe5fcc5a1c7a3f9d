"""The generated week: what RELAY's section 3.3 and Figure 14 report of phones, and who depends on what."""

import numpy as np
import pytest
from scipy import stats

from fedhpc.latency.availability import Availability
from fedhpc.latency.availability_sources import generated
from fedhpc.latency.availability_sources.generated import DAY, MU, SHARE_LONG, SIGMA, WEEK, generate
from fedhpc.latency.intervals import Intervals

MANY = 20_000
HOUR = 3600.0


@pytest.fixture(scope="module")
def week() -> Intervals:
    return generate(MANY, seed=3, trial=1)


def of_client(intervals: Intervals, client: int) -> list[tuple[float, float]]:
    mine = slice(intervals.first[client], intervals.first[client + 1])
    return list(zip(intervals.begins[mine].tolist(), intervals.ends[mine].tolist(), strict=True))


def test_the_short_charges_solve_both_percentiles() -> None:
    # Nights and long ones by day: (4.2 + 2.1) of (4.2 + 21) a week.
    assert pytest.approx(0.25) == SHARE_LONG
    short = stats.lognorm(SIGMA, scale=np.exp(MU))
    assert 0.75 * short.cdf(5 * 60) == pytest.approx(0.5, abs=1e-9)
    assert 0.75 * short.cdf(10 * 60) == pytest.approx(0.7, abs=1e-9)


def test_half_last_five_minutes_and_seven_of_ten_less_than_ten(week: Intervals) -> None:
    lengths = week.lengths()
    # 500,000 of them, a client's being alike in number only: a standard error of about 0.001.
    assert (lengths >= 5 * 60).mean() == pytest.approx(0.5, abs=0.004)
    assert (lengths < 10 * 60).mean() == pytest.approx(0.7, abs=0.004)
    # "A very long tail" (section C).
    assert 10 * HOUR < lengths.max() < 24 * HOUR
    assert len(lengths) / MANY == pytest.approx(25.2, rel=0.01)


def test_many_more_are_online_by_night_than_by_day(week: Intervals) -> None:
    availability = Availability(*week)
    at = {hour: availability.online(hour * HOUR).mean() for hour in range(7 * 24)}
    for day in range(7):
        assert at[24 * day + 2] > 0.4
        assert all(0.02 < at[24 * day + hour] < 0.1 for hour in range(11, 19))


def test_intervals_are_as_they_must_be(week: Intervals) -> None:
    same = week.owner[1:] == week.owner[:-1]
    assert (week.begins[1:] > week.ends[:-1])[same].all()
    assert (week.ends > week.begins).all()
    assert week.begins.min() >= 0
    assert week.ends.max() <= WEEK
    assert week.merged().begins.tolist() == week.begins.tolist()
    # Those of the last night go on in the first one.
    last = week.first[1:][np.diff(week.first) > 0] - 1
    assert (week.ends[last] == WEEK).mean() > 0.3


def test_a_clients_week_is_its_own_in_a_trial() -> None:
    few, more = generate(7, 0, 0), generate(generated._BLOCK + 3, 0, 0)
    assert [of_client(few, client) for client in range(7)] == [of_client(more, client) for client in range(7)]
    assert of_client(more, 0) != of_client(more, generated._BLOCK)
    assert of_client(generate(1, 0, 1), 0) != of_client(few, 0)
    assert of_client(generate(1, 1, 0), 0) != of_client(few, 0)


def online_by_night(intervals: Intervals) -> np.ndarray:
    """Of seven nights, in how many each client is online at two."""
    availability = Availability(*intervals)
    return sum(availability.online(day * DAY + 2 * HOUR).astype(int) for day in range(7))


def test_another_week_has_the_same_habits_and_other_draws() -> None:
    lived, past = generate(4000, 0, 0), generate(4000, 0, 0, past=True)
    assert of_client(lived, 0) != of_client(past, 0)
    assert np.corrcoef(online_by_night(lived), online_by_night(past))[0, 1] > 0.6
    # Of another trial's clients nothing is known by these.
    assert abs(np.corrcoef(online_by_night(lived), online_by_night(generate(4000, 0, 1)))[0, 1]) < 0.1


def test_a_day_too_short_for_its_charges_shortens_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "_BY_DAY", 150.0)
    crowded = generate(200, 0, 0)
    same = crowded.owner[1:] == crowded.owner[:-1]
    assert (crowded.begins[1:] > crowded.ends[:-1])[same].all()
    assert (crowded.ends > crowded.begins).all()
    assert len(crowded.begins) > 150_000
