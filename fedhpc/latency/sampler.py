"""Latency draws: each participation's factors, from a stream that only (trial seed, client, participation) key."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import count

import numpy as np

from fedhpc.federation.population import Population
from fedhpc.latency.scenario import Constant, Distribution, LogNormal, Scenario
from fedhpc.streams import ParticipationStream, Purpose

Normals = list[float]
Value = Callable[[Normals], float]


class LatencySampler:
    """How long participations take under a scenario, in virtual seconds."""

    def __init__(self, scenario: Scenario, population: Population, seed: int, trial: int) -> None:
        self._stream = ParticipationStream(seed, trial, Purpose.LATENCY)
        self._slow = population.stragglers.item
        everybody = (scenario.communication, scenario.overhead, scenario.per_example)
        own = scenario.stragglers
        stragglers = (
            everybody
            if own is None
            else (
                own.communication or scenario.communication,
                own.overhead or scenario.overhead,
                own.per_example or scenario.per_example,
            )
        )
        self._everybody, self._stragglers = _values(everybody), _values(stragglers)
        self._normals = np.empty(len(everybody))

    def duration(self, client: int, participation: int, examples: int) -> float:
        """Virtual seconds from download to upload for a client that processes ``examples`` examples.

        T = T_communication + C + T_per_example * examples (Hard et al., section 3.1), drawn in this order.
        """
        self._stream.at(client, participation).standard_normal(out=self._normals)
        normals = self._normals.tolist()
        communication, overhead, per_example = self._stragglers if self._slow(client) else self._everybody
        return communication(normals) + overhead(normals) + per_example(normals) * examples


def _values(factors: Iterable[Distribution]) -> tuple[Value, ...]:
    """Each factor as a function of the stream's normals, of which each lognormal factor takes the next."""
    draw = count()
    return tuple(_value(factor, draw) for factor in factors)


def _value(factor: Distribution, draw: Iterator[int]) -> Value:
    match factor:
        case LogNormal(mu=mu, sigma=sigma):
            exp, own = math.exp, next(draw)
            return lambda normals: exp(mu + sigma * normals[own])
        case Constant(value=value):
            return lambda normals: value
