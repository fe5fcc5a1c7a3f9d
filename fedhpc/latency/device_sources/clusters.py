"""Six generated groups of devices, labelled so (RELAY: Abdelmoniem et al. 2021, section C, Figure 13).

The figure shows that phones come in six groups by their speed, with a long tail of slow ones. The groups' shares and
how much faster one is than another are what 333 phones of AI Benchmark's 2019 ranking fall into by the logarithm of
their floating-point score on the CPU (k-means). That the median phone takes 40 ms an example, and the links' speeds
(median 6.2 Mbit/s, quartiles 2.9 and 14.5), are about FedScale's.
"""

import math

import numpy as np

from fedhpc.latency.device_sources.profiles import Profiles

WORDS = "generated, not measured: six groups of devices"

SHARES = (0.20, 0.19, 0.28, 0.12, 0.18, 0.03)
MEDIANS = (18.0, 30.0, 43.0, 100.0, 220.0, 500.0)
"""Milliseconds an example."""
_SPREAD = 0.14
"""The standard deviation of the logarithm within a group."""

_LINK_MEDIAN, _LINK_SPREAD, _LEAST_LINK = 6200.0, 1.19, 1000.0


def draw_from_clusters(clients: int, generator: np.random.Generator) -> Profiles:
    """A device for each client."""
    # Three streams, so that a client's numbers are its own however many clients there are.
    which, speed, link = generator.spawn(3)
    group = np.searchsorted(np.cumsum(SHARES)[:-1], which.random(clients), side="right")
    computation = np.array(MEDIANS)[group] * speed.lognormal(0, _SPREAD, clients)
    communication = link.lognormal(math.log(_LINK_MEDIAN), _LINK_SPREAD, clients)
    return Profiles(computation, np.maximum(communication, _LEAST_LINK))
