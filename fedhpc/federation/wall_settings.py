"""What a federation of silos under a clock cannot be: each refused in words."""

from collections.abc import Iterator

from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import AnyAlgorithm
from fedhpc.latency.scenario import Scenario

SCHEDULERS = ("synchronous", "buffered", "asynchronous", "compass", "tiered")
"""Those that a clock can drive: they need nothing of a client but its update."""

SILENCE_SECONDS = 30.0
"""How long a silo may be silent, unless the experiment says otherwise."""


def wall_mistakes(algorithm: AnyAlgorithm) -> list[str]:
    """What of an algorithm needs virtual time: sentences that begin with the key within the algorithm."""
    return list(_mistakes(algorithm))


def slowdown_mistakes(scenario: Scenario, population: Population) -> list[str]:
    """Whether a scenario's factors are one for each client: sentences that begin with the key within it."""
    factors = scenario.slowdown
    if not isinstance(factors, list) or len(factors) == len(population):
        return []
    return [
        f"slowdown: {len(factors)} factors for {len(population)} clients; give one for each, in the clients' order, or "
        "one number for all"
    ]


def _mistakes(algorithm: AnyAlgorithm) -> Iterator[str]:
    if algorithm.scheduler not in SCHEDULERS:
        yield (
            f"scheduler: {algorithm.scheduler} hears late clients of rounds long past, which clock: wall cannot; take "
            f"{', '.join(SCHEDULERS[:-1])} or {SCHEDULERS[-1]}, or clock: virtual"
        )
    if algorithm.privacy is not None:
        yield (
            "privacy: its noise counts on who takes part by seed and settings alone, and under clock: wall speeds "
            "decide that; remove it, or take clock: virtual"
        )
    if algorithm.client.distillation:
        yield "client.distillation: silos are sent no teachers; remove it, or take clock: virtual"
    if algorithm.client.time_limit is not None:
        yield (
            "client.time_limit: counts virtual seconds, and a silo's speed is not known before; remove it, or take "
            "clock: virtual"
        )
    if algorithm.client.within_deadline is not None:
        yield (
            "client.within_deadline: counts on capabilities in virtual time, and a silo's speed is not known before; "
            "remove it, or take clock: virtual"
        )
    if getattr(algorithm, "arrivals", None) is not None:
        yield (
            "arrivals: silos are few and always there, so that they do not begin at a rate; give a concurrency, or "
            "take clock: virtual"
        )
