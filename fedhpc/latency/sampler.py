"""Latency draws: each participation's factors, from a stream that only (trial seed, client, participation) key.

A participation's stream gives first one standard normal to each lognormal, half-normal and normal factor, in the order
communication, overhead, per_example, per_step. Then each factor in the same order takes what else it needs: a uniform
one uniform, an exponential one standard exponential, a normal that came to 0 or less further standard normals.

The parameters that are drawn for each client come, one after another by factor and then as the distribution lists
them, from a stream that only (trial seed, client) key, each as if it were the one factor of a participation. They are
drawn when they are first needed, and again when they were forgotten, so that memory depends on neither population nor
budget.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.population import Population
from fedhpc.latency.distributions import (
    MOST_MU,
    MOST_SIGMA,
    Constant,
    Distribution,
    Exponential,
    HalfNormal,
    LogNormal,
    Normal,
    Uniform,
    drawn_parameters,
)
from fedhpc.latency.scenario import Factors, Scenario
from fedhpc.streams import ParticipationStream, Purpose

Normals = list[float]
Value = Callable[[Normals], float]
Values = tuple[NDArray[np.float64], Value, Value, Value, Value]
"""Room for the normals that the four factors take together, and the factors as functions of them."""

_CLIENTS_REMEMBERED = 2**16
_HALF_NORMAL = math.sqrt(math.pi / 2)


class LatencySampler:
    """How long participations take under a scenario. ``purpose`` names the streams of the participations."""

    def __init__(
        self, scenario: Scenario, population: Population, seed: int, trial: int, purpose: Purpose = Purpose.LATENCY
    ) -> None:
        stream = ParticipationStream(seed, trial, purpose)
        self._at = stream.at
        self._slow = population.stragglers.item
        self._own_stream = ParticipationStream(seed, trial, Purpose.CLIENT_LATENCY)
        self._generator = stream.at(0, 0)
        self._scenario = scenario
        self._everybody = self._shared(scenario.factors(straggler=False))
        self._stragglers = self._shared(scenario.factors(straggler=True))
        self._own = lru_cache(_CLIENTS_REMEMBERED)(self._of_client)

    def factors(self, client: int, participation: int) -> tuple[float, float, float, float]:
        """(communication, overhead, per_example, per_step) of this participation, in virtual seconds."""
        values = self._stragglers if self._slow(client) else self._everybody
        drawn, communication, overhead, per_example, per_step = values or self._own(client)
        self._at(client, participation).standard_normal(out=drawn)
        normals = drawn.tolist()
        return communication(normals), overhead(normals), per_example(normals), per_step(normals)

    def _shared(self, factors: Factors) -> Values | None:
        """The factors as functions; None where clients have parameters of their own."""
        if any(factor is not None and drawn_parameters(factor) for factor in factors):
            return None
        return _values(factors, self._generator)

    def _of_client(self, client: int) -> Values:
        generator = self._own_stream.at(client, 0)
        communication, overhead, per_example, per_step = self._scenario.factors(straggler=self._slow(client))
        own = (
            _with_own_parameters(communication, generator),
            _with_own_parameters(overhead, generator),
            _with_own_parameters(per_example, generator),
            _with_own_parameters(per_step, generator),
        )
        return _values(own, self._generator)


def _with_own_parameters(factor: Distribution | None, generator: np.random.Generator) -> Distribution | None:
    """The factor with numbers for the parameters that are drawn, from the client's own stream."""
    if factor is None:
        return None
    own = {}
    for name in drawn_parameters(factor):
        place = count()
        draw = _value(getattr(factor, name), place, generator, negative=name == "mu")
        normals = next(place)
        own[name] = draw(generator.standard_normal(normals).tolist())
        # A mean is above 0: an accident of rounding is drawn again.
        while name == "mean" and own[name] <= 0:
            own[name] = draw(generator.standard_normal(normals).tolist())
    return factor.model_copy(update=own)


def _values(factors: Factors, generator: np.random.Generator) -> Values:
    place = count()
    communication, overhead, per_example, per_step = (_value(factor, place, generator) for factor in factors)
    return np.empty(next(place)), communication, overhead, per_example, per_step


def _value(
    distribution: Distribution | None, place: Iterator[int], generator: np.random.Generator, negative: bool = False
) -> Value:
    """A distribution of numbers as a function of the stream's normals, of which it takes the next where it needs one.

    ``negative``: a normal may be 0 or less.
    """
    match distribution:
        case None:
            return lambda normals: 0.0
        case LogNormal(mu=float(mu), sigma=float(sigma)):
            exp, own = math.exp, next(place)
            # Numbers of the file are within these bounds; a client's own may have been drawn beyond them.
            mu, sigma = max(-MOST_MU, min(mu, MOST_MU)), min(sigma, MOST_SIGMA)
            return lambda normals: exp(mu + sigma * normals[own])
        case Constant(value=float(value)):
            return lambda normals: value
        case HalfNormal(mean=float(mean)):
            scale, own = _HALF_NORMAL * mean, next(place)
            return lambda normals: scale * abs(normals[own])
        case Uniform(low=float(low), high=float(high)):
            width, uniform = high - low, generator.random
            return lambda normals: low + width * uniform()
        case Exponential(mean=float(mean)):
            exponential = generator.standard_exponential
            return lambda normals: mean * exponential()
        case Normal(mean=float(mean)):
            deviation, normal, own = _deviation(distribution), generator.standard_normal, next(place)
            if negative:
                return lambda normals: mean + deviation * normals[own]

            def above_0(normals: Normals) -> float:
                value: float = mean + deviation * normals[own]
                while value <= 0:
                    value = mean + deviation * normal()
                return value

            return above_0
    raise AssertionError(f"{distribution} holds a parameter that is still to be drawn")


def _deviation(distribution: Normal) -> float:
    match distribution:
        case Normal(std=float(std)):
            return std
        case Normal(mean=float(mean), variation=float(variation)):
            return variation * abs(mean)
    raise AssertionError(f"{distribution} holds a parameter that is still to be drawn")
