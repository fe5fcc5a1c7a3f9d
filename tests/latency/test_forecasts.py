"""What is foretold of clients: all of it, some of it, or what their past says."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from fedhpc.latency.availability import Availability
from fedhpc.latency.availability_settings import AvailabilitySettings
from fedhpc.latency.availability_sources import availability_of
from fedhpc.latency.forecasts import Oracle, forecast_of, seasonal_accuracy, seasons_of
from fedhpc.latency.intervals import Intervals
from fedhpc.latency.seasons import Seasons, accuracy, first_half

HOUR, DAY = 3600.0, 86_400.0
FEW = np.arange(50)


def settings(**forecast: Any) -> AvailabilitySettings:
    given_forecast = {"forecast": forecast} if forecast else {}
    return TypeAdapter(AvailabilitySettings).validate_python({"source": "generated", **given_forecast})


def one(period: float, *intervals: tuple[float, float]) -> Intervals:
    begins, ends = np.array(intervals, float).reshape(-1, 2).T
    return Intervals(np.array([0, len(intervals)]), begins.copy(), ends.copy(), period)


def test_the_oracle_knows_the_share() -> None:
    # Online 10..40 of every hundred.
    oracle = Oracle(Availability(*one(100, (10, 40))))
    for (start, end), share in {(0, 10): 0, (10, 20): 1, (30, 50): 0.5, (0, 100): 0.3, (95, 195): 0.3}.items():
        assert oracle.probability(np.array([0]), start, end) == [pytest.approx(share)]


def test_an_oracle_is_what_is_taken_where_none_is_named() -> None:
    plain = availability_of(settings(), 50, 0, 0)
    asked = availability_of(settings(kind="oracle", noise=0), 50, 0, 0)
    found = [forecast_of(settings(), each, 0, 0).probability(FEW, 4000, 9000) for each in (plain, asked)]
    assert found[0].tolist() == found[1].tolist() == plain.share(FEW, 4000, 9000).tolist()


def test_noise_is_normal_and_held_within_0_and_1() -> None:
    size, noise = 20_000, 0.1
    availability = availability_of(settings(), size, 0, 0)
    everybody = np.arange(size)
    share = availability.share(everybody, 0, 4 * HOUR)
    noisy = forecast_of(settings(kind="oracle", noise=noise), availability, 0, 0)
    probability = noisy.probability(everybody, 0, 4 * HOUR)
    assert probability.min() == 0
    assert probability.max() == 1
    # Of shares in the middle hardly anything is cut off.
    middle = (share > 0.4) & (share < 0.6)
    assert middle.sum() > 300
    assert stats.kstest((probability - share)[middle] / noise, stats.norm.cdf).pvalue > 1e-3


def test_noise_depends_on_the_slot_and_the_trial_and_not_on_what_was_asked_before() -> None:
    availability = availability_of(settings(), 50, 0, 0)

    def asked(trial: int, *slots: tuple[float, float]) -> list[list[float]]:
        noisy = forecast_of(settings(kind="oracle", noise=0.2), availability, 0, trial)
        return [noisy.probability(FEW, *slot).tolist() for slot in slots]

    (first, second), (again,) = asked(0, (100.5, 201), (200, 300)), asked(0, (200, 300))
    assert first != second
    assert second == again
    assert asked(1, (200, 300)) != [again]


def test_an_hours_rate_is_its_share_smoothed_over_three() -> None:
    # Four days, online from 12:00 to 13:00 on three of them, and half of 14:00 to 15:00 on all.
    noons = [(day * DAY + 12 * HOUR, day * DAY + 13 * HOUR) for day in range(3)]
    afternoons = [(day * DAY + 14 * HOUR, day * DAY + 14.5 * HOUR) for day in range(4)]
    seasons = Seasons(one(4 * DAY, *sorted(noons + afternoons)), np.array([4 * DAY]))
    expected = np.zeros(24)
    expected[11:16] = [0.75 / 4, 2 * 0.75 / 4, (0.75 + 0.5) / 4, 2 * 0.5 / 4, 0.5 / 4]
    assert seasons.rates[0] == pytest.approx(expected)
    # From 11:30 to 13:00: half an hour at the one rate, an hour at the other; a day later as well, and across days.
    slot = (0.5 * expected[11] + expected[12]) / 1.5
    asked = np.array([0])
    assert seasons.probability(asked, 11.5 * HOUR, 13 * HOUR) == [pytest.approx(slot)]
    assert seasons.probability(asked, DAY + 11.5 * HOUR, DAY + 13 * HOUR) == [pytest.approx(slot)]
    assert seasons.probability(asked, 12 * HOUR, 12 * HOUR + 2 * DAY) == [pytest.approx(expected.mean())]
    assert seasons.probability(asked, 15 * HOUR, 12 * HOUR + DAY) == [pytest.approx((0.125 + 0.1875) / 21)]
    assert seasons.probability(asked, 13.25 * HOUR, 13.25 * HOUR) == [pytest.approx(expected[13])]


def test_hours_are_those_of_the_clients_own_time() -> None:
    # Its time begins again after 30 hours, so that hour 36 of the run is its hour 6.
    seasons = Seasons(one(15 * HOUR, (6 * HOUR, 7 * HOUR)), np.array([30 * HOUR]))
    at_six = seasons.probability(np.array([0]), 36.25 * HOUR, 36.75 * HOUR)
    assert at_six == [pytest.approx(0.5)]
    assert seasons.probability(np.array([0]), 30.25 * HOUR, 30.75 * HOUR) == [0]


def test_of_hours_that_were_not_watched_nothing_but_the_mean_is_known() -> None:
    # Watched from 0:00 to 6:00 and online from 2:00 to 3:00.
    rates = Seasons(one(6 * HOUR, (2 * HOUR, 3 * HOUR)), np.array([12 * HOUR])).rates[0]
    assert rates[[1, 2, 3, 4]] == pytest.approx([0.25, 0.5, 0.25, 0])
    assert rates[[6, 23]] == pytest.approx([0, 0])  # beside hours that were
    assert rates[7:23] == pytest.approx(1 / 6)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 40)), max_size=5))
def test_the_first_half_is_what_came_in_it(spans: list[tuple[int, int]]) -> None:
    whole = one(120, *sorted((begin, min(begin + length, 120)) for begin, length in spans)).merged()
    half = first_half(whole)
    seconds = np.arange(120)

    def online(intervals: Intervals) -> list[bool]:
        pairs = list(zip(intervals.begins, intervals.ends, strict=True))
        return [any(begin <= second < end for begin, end in pairs) for second in seconds]

    assert half.periods.tolist() == [60]
    assert online(half) == online(whole)[:60] + [False] * 60
    assert half.first.tolist() == [0, len(half.begins)]


def test_accuracy_by_hand() -> None:
    # Foretold 0.25, 0.5, 0.25 at hours 1 to 3 of six; in truth online from 2:00 to 3:00: six samples each hour.
    seasons = Seasons(one(6 * HOUR, (2 * HOUR, 3 * HOUR)), np.array([6 * HOUR]))
    found = accuracy(seasons, one(6 * HOUR, (2 * HOUR, 3 * HOUR)), np.zeros(1))
    mse = (0.25**2 + 0.5**2 + 0.25**2) / 6
    assert found.mse == pytest.approx(mse)
    assert found.mae == pytest.approx(1 / 6)
    assert found.r2 == pytest.approx(1 - mse / (1 / 6 * 5 / 6))
    assert found.clients == 1
    # From 3:00 on nothing changes, so that there is no R2.
    later = accuracy(seasons, one(6 * HOUR, (2 * HOUR, 3 * HOUR)), np.array([3 * HOUR]))
    assert np.isnan(later.r2)
    assert later.mae == pytest.approx(0.25 / 3)


def test_generated_clients_are_foretold_from_a_week_that_they_do_not_live_through() -> None:
    fitted = settings(kind="seasonal")
    truth = availability_of(fitted, 400, 0, 0).intervals
    found = seasonal_accuracy(fitted, 400, 0, 0)
    own = accuracy(Seasons(truth, truth.periods), truth, 0 * truth.periods)
    # It knows less than one that was fitted on the answers, and more than the mean of each client would.
    assert 0 < found.r2 < own.r2 < 1
    assert own.mse < found.mse < 0.15
    assert seasonal_accuracy(fitted, 400, 0, 0) == found
    # However many there are, a thousand are enough.
    assert seasonal_accuracy(fitted, 3000, 0, 0).clients == 1000


def test_a_trace_is_foretold_from_its_first_half(tmp_path: Path) -> None:
    path = tmp_path / "behaviour.pkl"
    night = {"active": [day * DAY for day in range(4)], "inactive": [day * DAY + 6 * HOUR for day in range(4)]}
    other = {"active": [0, DAY], "inactive": [6 * HOUR, DAY + 6 * HOUR]}  # and never again
    path.write_bytes(pickle.dumps({at: {**each, "finish_time": 4 * DAY} for at, each in enumerate([night, other])}))
    given_trace = {"source": "fedscale", "path": path, "forecast": {"kind": "seasonal"}}
    fitted: AvailabilitySettings = TypeAdapter(AvailabilitySettings).validate_python(given_trace)
    availability = availability_of(fitted, 2, 0, 0)
    seasons = seasons_of(fitted, availability.intervals, 0, 0)
    # Both were the same for two days.
    assert seasons.rates[0].tolist() == seasons.rates[1].tolist()
    assert seasons.rates[0, [0, 3, 12]] == pytest.approx([0.75, 1, 0])
    forecast = forecast_of(fitted, availability, 0, 0)
    assert forecast.probability(np.arange(2), 3 * DAY + 2 * HOUR, 3 * DAY + 3 * HOUR) == pytest.approx([1, 1])
    # Of the first: 0.25 off at hours 0, 5, 6 and 23 of 24; of the second, wrong by what is foretold.
    found = seasonal_accuracy(fitted, 2, 0, 0)
    assert found.mae == pytest.approx((4 * 0.25 / 24 + 6 / 24) / 2)
    assert found.r2 == pytest.approx(1 - (4 * 0.25**2 / 24) / (0.25 * 0.75))


@pytest.mark.parametrize(
    ("forecast", "told"),
    [
        ({"kind": "oracle", "noise": -1}, "greater than or equal to 0"),
        ({"kind": "seasonal", "noise": 0.1}, "Extra inputs"),
        ({"kind": "prophet"}, "'oracle', 'seasonal'"),
    ],
)
def test_what_cannot_be_is_refused(forecast: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        settings(**forecast)
