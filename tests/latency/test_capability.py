"""What clients process in a second: drawn once, or by the examples that they hold."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from fedhpc.federation.population import Population
from fedhpc.latency.capability import capability_mistakes
from fedhpc.latency.sampler import LatencySampler, capability_of
from fedhpc.latency.scenario import Scenario

NORMAL = {"distribution": "normal", "mean": 1, "std": 0.25}
BY_EXAMPLES = {"distribution": "by_examples"}


def scenario(capability: Any, **others: Any) -> Scenario:
    return Scenario.model_validate({"capability": capability, **others})


def drawn(capability: Any, examples: list[int], trial: int = 0) -> list[float]:
    settings = scenario(capability).capability
    assert settings is not None
    population = Population(np.array(examples), np.zeros(len(examples), bool))
    of = capability_of(settings, population, 3, trial)
    return [of(client) for client in range(len(examples))]


def test_a_drawn_capability_follows_its_distribution_and_is_the_trials() -> None:
    capabilities = drawn(NORMAL, [1] * 4000)
    # P(c <= 0) is 3e-5, so that what is drawn again moves nothing that 4,000 draws can show.
    assert stats.kstest(capabilities, stats.norm(1, 0.25).cdf).pvalue > 1e-3
    assert drawn(NORMAL, [1] * 4000) == capabilities
    # Whoever else is there.
    assert drawn(NORMAL, [9, 9, 9]) == capabilities[:3]
    assert drawn(NORMAL, [1] * 3, trial=1) != capabilities[:3]


def test_nothing_at_or_below_0_is_drawn() -> None:
    wide = drawn({"distribution": "normal", "mean": 0.1, "std": 1}, [1] * 4000)
    assert min(wide) > 0
    assert stats.kstest(wide, stats.truncnorm(-0.1, np.inf, 0.1, 1).cdf).pvalue > 1e-3


def test_a_capability_is_not_the_clients_latency_parameter() -> None:
    own = {"distribution": "constant", "value": {"distribution": "uniform", "low": 0, "high": 1}}
    uniform = {"distribution": "uniform", "low": 0, "high": 1}
    population = Population(np.ones(50, np.int64), np.zeros(50, bool))
    sampler = LatencySampler(scenario(uniform, per_step=own), population, 3, 0)
    assert not {sampler.factors(client, 0)[3] for client in range(50)} & set(drawn(uniform, [1] * 50))


def test_by_examples_is_the_released_formula() -> None:
    # Mean 4 and, over all four, standard deviation sqrt((9 + 1 + 1 + 9) / 4) = sqrt(5).
    expected = [1 + 0.25 * off / 5**0.5 for off in (-3, -1, 1, 3)]
    assert drawn(BY_EXAMPLES, [1, 3, 5, 7]) == pytest.approx(expected, rel=1e-12)
    assert drawn(BY_EXAMPLES, [5, 5]) == [1, 1]


def test_a_client_that_would_process_nothing_is_told() -> None:
    # Nine hold 10, one holds 9: it lies 3 standard deviations below the mean, and 1 - 0.34 * 3 < 0.
    population = Population(np.array([10] * 9 + [9]), np.zeros(10, bool))
    settings = scenario({**BY_EXAMPLES, "std": 0.34}).capability
    assert capability_mistakes(settings, population) == [
        "capability.std: client 9, who holds 9 examples, would process -0.02 in a second, which must be above 0; lower "
        "std or raise mean"
    ]
    assert capability_mistakes(scenario({**BY_EXAMPLES, "std": 0.33}).capability, population) == []
    assert capability_mistakes(scenario(NORMAL).capability, population) == []
    assert capability_mistakes(None, population) == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"capability": {"distribution": "constant", "value": 0}}, "0 is not above 0"),
        ({"capability": {**NORMAL, "mean": {"distribution": "constant", "value": 1}}}, "one too deep"),
        ({"capability": {"distribution": "normal", "mean": -1, "std": 1}}, "-1 is not above 0"),
        ({"communication": {"distribution": "constant", "value": 1}, "straggler_percent": 10}, "give the scenario a"),
        ({"capability": NORMAL, "straggler_percent": 0}, "greater than 0"),
        ({"capability": NORMAL, "straggler_percent": 100}, "less than 100"),
        ({}, "or a capability"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Scenario.model_validate(settings)
