"""How likely a client is to be online in a slot of time to come (RELAY: Abdelmoniem et al. 2021, section 4.1)."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpc.latency.availability import Availability
from fedhpc.latency.availability_settings import AvailabilitySettings, GeneratedAvailability, SeasonalForecast
from fedhpc.latency.availability_sources import availability_of
from fedhpc.latency.availability_sources.generated import generate
from fedhpc.latency.intervals import Intervals
from fedhpc.latency.seasons import MOST_MEASURED, Accuracy, Seasons, accuracy, first_half
from fedhpc.streams import ParticipationStream, Purpose


class Forecast(Protocol):
    """What is asked before participants are selected."""

    def probability(self, clients: NDArray[np.int64], start: float, end: float) -> NDArray[np.float64]:
        """The probability that each of the clients is online from virtual second ``start``, now or later, to ``end``,
        float64 [clients], within 0..1."""
        ...


class Oracle:
    """The share of the slot that the client will be online: it knows the clients' schedule."""

    def __init__(self, availability: Availability) -> None:
        self._availability = availability

    def probability(self, clients: NDArray[np.int64], start: float, end: float) -> NDArray[np.float64]:
        return self._availability.share(clients, start, end)


class NoisyOracle:
    """The oracle's share and a normal error of standard deviation ``noise``, held within 0..1. The errors of a slot
    come from its own stream, one after another to the clients who are asked about."""

    def __init__(self, availability: Availability, noise: float, seed: int, trial: int) -> None:
        self._availability, self._noise = availability, noise
        self._stream = ParticipationStream(seed, trial, Purpose.FORECAST)

    def probability(self, clients: NDArray[np.int64], start: float, end: float) -> NDArray[np.float64]:
        slot = np.array([start, end]).view(np.uint64).tolist()
        error = self._stream.at(*slot).standard_normal(len(clients))
        share = self._availability.share(clients, start, end) + self._noise * error
        return np.clip(share, 0.0, 1.0, out=share)


def forecast_of(settings: AvailabilitySettings, availability: Availability, seed: int, trial: int) -> Forecast:
    """The forecast that the settings ask for, of these clients' availability."""
    forecast = settings.forecast
    if isinstance(forecast, SeasonalForecast):
        return seasons_of(settings, availability.intervals, seed, trial)
    if forecast.noise:
        return NoisyOracle(availability, forecast.noise, seed, trial)
    return Oracle(availability)


def seasons_of(settings: AvailabilitySettings, truth: Intervals, seed: int, trial: int) -> Seasons:
    """What clients do at which hour, from their past alone: of generated clients from a week before the one that they
    live through, of a trace's from the first half of it."""
    if isinstance(settings, GeneratedAvailability):
        return Seasons(generate(len(truth.periods), seed, trial, past=True), truth.periods)
    return Seasons(first_half(truth), truth.periods)


def seasonal_accuracy(settings: AvailabilitySettings, clients: int, seed: int, trial: int) -> Accuracy:
    """How good ``seasons_of`` is where it was not fitted: in the week that generated clients live through, or in the
    second half of a trace (section 5.2 does the same), of at most 1,000 clients."""
    if isinstance(settings, GeneratedAvailability):
        clients = min(clients, MOST_MEASURED)  # all are alike, and the first ones' weeks are their own
    truth = availability_of(settings, clients, seed, trial).intervals
    since = 0 * truth.periods if isinstance(settings, GeneratedAvailability) else truth.periods / 2
    return accuracy(seasons_of(settings, truth, seed, trial), truth, since)
