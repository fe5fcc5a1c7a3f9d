"""Latency draws: each participation's factors, from a stream that only (trial seed, client, participation) key.

A participation's stream gives first one standard normal to each lognormal, half-normal and normal factor, in the order
communication, overhead, per_example, per_step. Then each factor in the same order takes what else it needs: a uniform
one uniform, an exponential one standard exponential, a normal that came to 0 or less further standard normals.

The parameters that are drawn for each client come, one after another by factor and then as the distribution lists
them, from a stream that only (trial seed, client) key, each as if it were the one factor of a participation. They are
drawn when they are first needed, and again when they were forgotten, so that memory depends on neither population nor
budget.

Where speeds change, a uniform number of each participation's own stream decides whether that client's parameters are
drawn anew there; they then come from the stream of (trial seed, client, participation), the first ones' being that of
participation 0. So they depend on how many participations came before, and not on who was asked for when.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.population import Population
from fedhpc.latency.capability import ByExamples, Capability
from fedhpc.latency.distributions import MOST_MU, MOST_SIGMA, Distribution
from fedhpc.latency.scenario import Scenario
from fedhpc.streams import ParticipationStream, Purpose

Normals = list[float]
Value = Callable[[Normals], float]
Values = tuple[NDArray[np.float64], Callable[[], Normals], Value, Value, Value, Value]
"""Room for the normals that the four factors take together, as an array and as a list, and the factors as functions of
the list."""

_CLIENTS_REMEMBERED = 2**14
_CAPABILITY = 2**63
"""Where in a client's own stream its capability lies; its latency parameters lie at 0."""


class _Factor(NamedTuple):
    """A factor's distribution by ``name``: its parameters that are ``numbers``, and those that are ``drawn`` for each
    client, as (parameter, how many normals it takes, what it makes of them)."""

    name: str
    numbers: dict[str, float]
    drawn: list[tuple[str, int, Value]]


class LatencySampler:
    """How long participations take under a scenario. ``purpose`` names the streams of the participations; unless it is
    the federation's own, clients have their first parameters at all of them."""

    def __init__(
        self, scenario: Scenario, population: Population, seed: int, trial: int, purpose: Purpose = Purpose.LATENCY
    ) -> None:
        stream = ParticipationStream(seed, trial, purpose)
        self._at = stream.at
        self._slow = population.stragglers.data
        self._generator = stream.at(0, 0)
        self._normal = self._generator.standard_normal
        self._own_stream = ParticipationStream(seed, trial, Purpose.CLIENT_LATENCY)
        everybody, stragglers = (
            [_factor(factor, self._own_stream.at(0, 0)) for factor in scenario.factors(straggler=straggler)]
            for straggler in (False, True)
        )
        self._factors_of = (everybody, stragglers)
        self._everybody, self._stragglers = self._shared(everybody), self._shared(stragglers)
        self._own_since = lru_cache(_CLIENTS_REMEMBERED)(self._of_client)
        self._own = self._first
        if scenario.speed_change and purpose == Purpose.LATENCY:
            self._own = self._newest
            self._probability = scenario.speed_change
            self._coin = ParticipationStream(seed, trial, Purpose.SPEED_CHANGE).at
            self._changes: dict[int, tuple[int, int]] = {}

    def factors(self, client: int, participation: int) -> tuple[float, float, float, float]:
        """(communication, overhead, per_example, per_step) of this participation, in virtual seconds."""
        values = (self._stragglers if self._slow[client] else self._everybody) or self._own(client, participation)
        room, as_list, communication, overhead, per_example, per_step = values
        self._at(client, participation)
        self._normal(out=room)
        normals = as_list()
        return communication(normals), overhead(normals), per_example(normals), per_step(normals)

    def duration(self, client: int, participation: int, examples: int, steps: int) -> float:
        """Virtual seconds from download to upload of a participation with so many examples in so many mini-batches.

        The factors' sum, communication + overhead + per_example * examples + per_step * steps, without the detour over
        ``factors``: most schedules spend half their time here.
        """
        values = (self._stragglers if self._slow[client] else self._everybody) or self._own(client, participation)
        room, as_list, communication, overhead, per_example, per_step = values
        self._at(client, participation)
        self._normal(out=room)
        normals = as_list()
        return communication(normals) + overhead(normals) + per_example(normals) * examples + per_step(normals) * steps

    def _shared(self, factors: Sequence[_Factor]) -> Values | None:
        """The factors as functions; None where clients have parameters of their own."""
        if any(factor.drawn for factor in factors):
            return None
        return _values([(factor.name, factor.numbers) for factor in factors], self._generator)

    def _first(self, client: int, participation: int) -> Values:
        return self._own_since(client, 0)

    def _newest(self, client: int, participation: int) -> Values:
        """As the last change until this participation has them."""
        known, since = self._changes.pop(client, (0, 0))
        if known > participation:
            known, since = 0, 0
        for later in range(participation, known, -1):
            if self._coin(client, later).random() < self._probability:
                since = later
                break
        self._changes[client] = participation, since
        if len(self._changes) > _CLIENTS_REMEMBERED:
            del self._changes[next(iter(self._changes))]
        return self._own_since(client, since)

    def _of_client(self, client: int, since: int) -> Values:
        normals = self._own_stream.at(client, since).standard_normal
        own = []
        for factor in self._factors_of[self._slow[client]]:
            numbers = dict(factor.numbers)
            for parameter, size, value in factor.drawn:
                numbers[parameter] = value(normals(size).tolist())
                # A mean is above 0: an accident of rounding is drawn again.
                while parameter == "mean" and numbers[parameter] <= 0:
                    numbers[parameter] = value(normals(size).tolist())
            own.append((factor.name, numbers))
        return _values(own, self._generator)


def capability_of(capability: Capability, population: Population, seed: int, trial: int) -> Callable[[int], float]:
    """A client's examples in a virtual second, above 0 in a population that ``capability_mistakes`` has nothing
    against. A draw of 0 or less is drawn again."""
    if isinstance(capability, ByExamples):
        return capability.of(population.examples).item
    stream = ParticipationStream(seed, trial, Purpose.CLIENT_LATENCY)
    factor, places = _factor(capability, stream.at(0, _CAPABILITY)), count()
    value = _value(factor.name, factor.numbers, places, stream.at(0, _CAPABILITY))
    size = next(places)

    @lru_cache(_CLIENTS_REMEMBERED)
    def of_client(client: int) -> float:
        normals = stream.at(client, _CAPABILITY).standard_normal
        drawn = value(normals(size).tolist())
        while drawn <= 0:
            drawn = value(normals(size).tolist())
        return drawn

    return of_client


def _factor(distribution: Distribution | None, generator: np.random.Generator) -> _Factor:
    """``generator`` is what the clients' own parameters are drawn from."""
    if distribution is None:
        return _Factor("constant", {"value": 0.0}, [])
    numbers: dict[str, float] = {}
    drawn = []
    for parameter, setting in distribution:
        if isinstance(setting, float):
            numbers[parameter] = setting
        elif setting is not None and parameter != "distribution":
            own, place = _factor(setting, generator), count()
            value = _value(own.name, own.numbers, place, generator, negative=parameter == "mu")
            drawn.append((parameter, next(place), value))
    return _Factor(distribution.distribution, numbers, drawn)


def _values(factors: Sequence[tuple[str, dict[str, float]]], generator: np.random.Generator) -> Values:
    place = count()
    communication, overhead, per_example, per_step = (
        _value(name, numbers, place, generator) for name, numbers in factors
    )
    room = np.empty(next(place))
    return room, room.tolist, communication, overhead, per_example, per_step


def _value(
    name: str, numbers: dict[str, float], place: Iterator[int], generator: np.random.Generator, negative: bool = False
) -> Value:
    """A distribution with these parameters as a function of the stream's normals, of which it takes the next where it
    needs one. ``negative``: a normal may be 0 or less."""
    match name:
        case "lognormal":
            exp, own = math.exp, next(place)
            # Numbers of the file are within these bounds; a client's own may have been drawn beyond them.
            mu, sigma = max(-MOST_MU, min(numbers["mu"], MOST_MU)), min(numbers["sigma"], MOST_SIGMA)
            return lambda normals: exp(mu + sigma * normals[own])
        case "constant":
            value = numbers["value"]
            return lambda normals: value
        case "half_normal":
            scale, own = math.sqrt(math.pi / 2) * numbers["mean"], next(place)
            return lambda normals: scale * abs(normals[own])
        case "uniform":
            low, width, uniform = numbers["low"], numbers["high"] - numbers["low"], generator.random
            return lambda normals: low + width * uniform()
        case "exponential":
            mean, exponential = numbers["mean"], generator.standard_exponential
            return lambda normals: mean * exponential()
        case "normal":
            return _normal(numbers, next(place), generator.standard_normal, negative)
    raise AssertionError(f"no distribution is called {name}")


def _normal(numbers: dict[str, float], own: int, again: Callable[[], float], negative: bool) -> Value:
    mean = numbers["mean"]
    std = numbers["std"] if "std" in numbers else numbers["variation"] * abs(mean)
    if negative:
        return lambda normals: mean + std * normals[own]

    def above_0(normals: Normals) -> float:
        value = mean + std * normals[own]
        while value <= 0:
            value = mean + std * again()
        return value

    return above_0
