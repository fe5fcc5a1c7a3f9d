"""Latency draws: each participation's factors, from a stream that only (trial seed, client, participation) key."""

import math
from collections.abc import Callable

import numpy as np

from fedhpc.federation.population import Population
from fedhpc.latency.scenario import Constant, Distribution, LogNormal, Scenario
from fedhpc.streams import ParticipationStream, Purpose

Draw = Callable[[np.random.Generator], float]


class LatencySampler:
    """How long participations take under a scenario, in virtual seconds."""

    def __init__(self, scenario: Scenario, population: Population, seed: int, trial: int) -> None:
        self._stream = ParticipationStream(seed, trial, Purpose.LATENCY)
        self._slow = population.stragglers
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
        self._everybody, self._stragglers = (tuple(map(_draw, factors)) for factors in (everybody, stragglers))

    def duration(self, client: int, participation: int, examples: int) -> float:
        """Virtual seconds from download to upload for a client that processes ``examples`` examples.

        T = T_communication + C + T_per_example * examples (Hard et al., section 3.1), drawn in this order.
        """
        generator = self._stream.at(client, participation)
        communication, overhead, per_example = self._stragglers if self._slow[client] else self._everybody
        return communication(generator) + overhead(generator) + per_example(generator) * examples


def _draw(factor: Distribution) -> Draw:
    match factor:
        case LogNormal(mu=mu, sigma=sigma):
            return lambda generator: math.exp(mu + sigma * generator.standard_normal())
        case Constant(value=value):
            return lambda generator: value
