"""Every distribution from its documented draws, by an independent numpy; a client's own parameters; what is refused."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedhpc.experiment import dump_experiment, load_experiment
from fedhpc.federation.population import Population
from fedhpc.latency.sampler import LatencySampler
from fedhpc.latency.scenario import Scenario
from fedhpc.mistakes import ExperimentError
from fedhpc.streams import Purpose

Block = dict[str, Any]

SEED, TRIAL = 11, 2
POPULATION = Population(np.full(1000, 100), np.arange(1000) >= 500)
KEYS = st.tuples(st.integers(0, 999), st.integers(0, 10**6))


def sampler(scenario: Block) -> LatencySampler:
    return LatencySampler(Scenario.model_validate(scenario), POPULATION, SEED, TRIAL)


def stream(purpose: Purpose, client: int, participation: int) -> np.random.Generator:
    """Independently: SeedSequence gives the key, Philox's counter holds participation and client."""
    key = np.random.SeedSequence(SEED, spawn_key=(TRIAL, int(purpose))).generate_state(2, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, participation, client]))


LOGNORMAL = {"distribution": "lognormal", "mu": -1.6, "sigma": 0.5}
HALF_NORMAL = {"distribution": "half_normal", "mean": 3.0}
UNIFORM = {"distribution": "uniform", "low": 2.0, "high": 5.0}
EXPONENTIAL = {"distribution": "exponential", "mean": 0.16}
NORMAL = {"distribution": "normal", "mean": 4.0, "std": 0.5}
OFTEN_AGAIN = {"distribution": "normal", "mean": 0.1, "variation": 20.0}


@given(KEYS)
def test_each_distribution_alone(key: tuple[int, int]) -> None:
    def first() -> np.random.Generator:
        return stream(Purpose.LATENCY, *key)

    expected = [
        (LOGNORMAL, math.exp(-1.6 + 0.5 * first().standard_normal())),
        (HALF_NORMAL, math.sqrt(math.pi / 2) * 3.0 * abs(first().standard_normal())),
        (UNIFORM, 2.0 + (5.0 - 2.0) * first().random()),
        (EXPONENTIAL, 0.16 * first().standard_exponential()),
        (NORMAL, 4.0 + 0.5 * first().standard_normal()),
        ({"distribution": "constant", "value": 7.0}, 7.0),
    ]
    for distribution, value in expected:
        assert sampler({"per_step": distribution}).factors(*key) == (0, 0, 0, value)


@given(KEYS)
def test_normals_come_first_then_what_each_factor_takes_in_order(key: tuple[int, int]) -> None:
    scenario = {"communication": OFTEN_AGAIN, "overhead": EXPONENTIAL, "per_example": UNIFORM, "per_step": HALF_NORMAL}
    draws = stream(Purpose.LATENCY, *key)
    communication, per_step = 0.1 + 2.0 * draws.standard_normal(), draws.standard_normal()
    while communication <= 0:
        communication = 0.1 + 2.0 * draws.standard_normal()
    overhead, per_example = 0.16 * draws.standard_exponential(), 2.0 + 3.0 * draws.random()
    per_step = math.sqrt(math.pi / 2) * 3.0 * abs(per_step)
    assert sampler(scenario).factors(*key) == (communication, overhead, per_example, per_step)


@given(KEYS)
def test_clients_own_parameters_come_from_the_clients_own_stream(key: tuple[int, int]) -> None:
    client, _ = key
    scenario = {
        "communication": {"distribution": "lognormal", "mu": OFTEN_AGAIN, "sigma": {**UNIFORM, "low": 0.0}},
        "overhead": EXPONENTIAL,
        "per_example": {"distribution": "uniform", "low": 0, "high": EXPONENTIAL},
        "per_step": {"distribution": "normal", "mean": OFTEN_AGAIN, "variation": 0.05},
    }
    own = stream(Purpose.CLIENT_LATENCY, client, 0)
    mu = 0.1 + 2.0 * own.standard_normal()  # of either sign
    sigma, high, speed = 5.0 * own.random(), 0.16 * own.standard_exponential(), 0.1 + 2.0 * own.standard_normal()
    while speed <= 0:
        speed = 0.1 + 2.0 * own.standard_normal()
    draws = stream(Purpose.LATENCY, *key)
    communication, per_step = math.exp(mu + sigma * draws.standard_normal()), draws.standard_normal()
    overhead, per_example = 0.16 * draws.standard_exponential(), high * draws.random()
    assert (speed + 0.05 * speed * per_step) > 0
    found = sampler(scenario).factors(*key)
    assert found == (communication, overhead, per_example, speed + 0.05 * speed * per_step)


def test_each_client_keeps_its_parameters_and_each_participation_draws_anew() -> None:
    # Values of the client alone, and around them 5 % at each round: FedCompass, section 5.1.
    kept = sampler({"per_step": {"distribution": "constant", "value": EXPONENTIAL}})
    speeds = [kept.factors(client, 0)[3] for client in range(1000)]
    assert len(set(speeds)) == 1000
    assert [kept.factors(client, 9)[3] for client in range(1000)] == speeds
    around = sampler({"per_step": {"distribution": "normal", "mean": EXPONENTIAL, "variation": 0.05}})
    ratios = np.array([[around.factors(client, n)[3] / speeds[client] for n in range(40)] for client in range(100)])
    assert ratios.mean() == pytest.approx(1, abs=5 * 0.05 / math.sqrt(ratios.size))
    # The standard deviation's own error is 0.05 / sqrt(2 n).
    assert ratios.std() == pytest.approx(0.05, abs=5 * 0.05 / math.sqrt(2 * ratios.size))


def test_stragglers_may_have_parameters_of_their_own_and_others_none() -> None:
    found = sampler({"overhead": NORMAL, "stragglers": {"overhead": {**NORMAL, "mean": UNIFORM}}})
    mean = 2.0 + 3.0 * stream(Purpose.CLIENT_LATENCY, 700, 0).random()
    assert found.factors(700, 4)[1] == mean + 0.5 * stream(Purpose.LATENCY, 700, 4).standard_normal()
    assert found.factors(300, 4)[1] == 4.0 + 0.5 * stream(Purpose.LATENCY, 300, 4).standard_normal()


def test_parameters_that_were_forgotten_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedhpc.latency.sampler._CLIENTS_REMEMBERED", 3)
    scenario = {"per_step": {"distribution": "exponential", "mean": EXPONENTIAL}}
    forgetful = sampler(scenario)
    monkeypatch.undo()
    keys = [(client, participation) for participation in range(3) for client in range(10)]
    assert [forgetful.factors(*key) for key in keys] == [sampler(scenario).factors(*key) for key in keys]


@given(st.lists(KEYS, min_size=1, max_size=20, unique=True), st.randoms())
def test_a_value_depends_on_its_key_alone(keys: list[tuple[int, int]], random: Any) -> None:
    scenario = {
        "communication": {"distribution": "uniform", "low": 0, "high": HALF_NORMAL},
        "per_step": {"distribution": "normal", "mean": EXPONENTIAL, "variation": 3.0},
    }
    one = sampler(scenario)
    found = {key: one.factors(*key) for key in keys}
    assert len(set(found.values())) == len(keys)
    random.shuffle(keys)
    other = sampler(scenario)
    assert {key: other.factors(*key) for key in keys} == found


@pytest.mark.parametrize(
    ("distribution", "mean", "std"),
    [
        (LOGNORMAL, math.exp(-1.6 + 0.5**2 / 2), math.exp(-1.6 + 0.5**2 / 2) * math.sqrt(math.exp(0.5**2) - 1)),
        (HALF_NORMAL, 3.0, 3.0 * math.sqrt(math.pi / 2 - 1)),
        (UNIFORM, 3.5, 3.0 / math.sqrt(12)),
        (EXPONENTIAL, 0.16, 0.16),
        (NORMAL, 4.0, 0.5),
        # Drawn again where it is not above 0: a normal cut off there, with mean 0.1 and standard deviation 2.
        (OFTEN_AGAIN, *stats.truncnorm.stats(-0.05, math.inf, 0.1, 2.0)[:1], stats.truncnorm.std(-0.05, 99, 0.1, 2.0)),
    ],
)
def test_means_within_the_sampling_error(distribution: Block, mean: float, std: float) -> None:
    found = sampler({"overhead": distribution})
    draws = np.array([found.factors(3, participation)[1] for participation in range(20_000)])
    assert draws.min() > 0
    assert draws.mean() == pytest.approx(mean, abs=4.5 * std / math.sqrt(len(draws)))


@pytest.mark.parametrize(
    ("distribution", "sentence"),
    [
        ({**UNIFORM, "low": -1}, "low: -1 is below 0, as nothing that is drawn here may be; raise it"),
        ({**UNIFORM, "low": 6}, "low: it may be 6 where high may be only 5; lower it"),
        ({**UNIFORM, "low": NORMAL}, "low: it may be inf where high may be only 5; lower it"),
        ({**UNIFORM, "low": 0, "high": {**NORMAL, "mean": -1}}, "high.mean: -1 is not above 0"),
        ({**NORMAL, "mean": 0}, "mean: 0 is not above 0, as all that is drawn here must be; raise it"),
        ({**NORMAL, "mean": {**NORMAL, "mean": -2}}, "mean.mean: -2 is not above 0"),
        ({**NORMAL, "mean": {**UNIFORM, "low": -2}}, "mean.low: -2 is below 0"),
        ({**NORMAL, "mean": {"distribution": "constant", "value": 0}}, "mean.value: 0 is not above 0"),
        ({**NORMAL, "std": -1}, "std: -1 is not allowed"),
        ({**NORMAL, "std": {**UNIFORM, "low": -1}}, "std.low: -1 is below 0"),
        ({**NORMAL, "variation": 0.3}, "std: give either std or variation, one of them and not both"),
        ({"distribution": "normal", "mean": 1}, "std: give either std or variation, one of them and not both"),
        ({**EXPONENTIAL, "mean": 0}, "mean: 0 is not allowed: it should be greater than 0"),
        ({**EXPONENTIAL, "mean": {**UNIFORM, "low": 0, "high": 0}}, "mean.high: 0 is not above 0"),
        ({**HALF_NORMAL, "mean": "long"}, "mean: 'long' is not allowed: it should be a valid number"),
        ({"distribution": "half_normal"}, "mean: missing; it takes a number or a block of keys: distribution"),
        ({**HALF_NORMAL, "mean": {"distribution": "expo"}}, "mean.distribution: 'expo' is unknown; did you mean"),
        ({**HALF_NORMAL, "mean": {"mean": 3}}, "mean.distribution: missing; known: constant, exponential"),
        ({**LOGNORMAL, "sigma": {**UNIFORM, "low": -1}}, "sigma.low: -1 is below 0"),
        (
            {**EXPONENTIAL, "mean": {**EXPONENTIAL, "mean": EXPONENTIAL}},
            "mean.mean: a distribution here is one too deep; give a number",
        ),
    ],
)
def test_what_no_duration_could_be_drawn_from(tiny: Callable[..., Path], distribution: Block, sentence: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_experiment(tiny(lambda settings: settings["scenarios"]["alike"].update(per_step=distribution)))
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f"scenarios.alike.per_step.{sentence}")


def test_what_may_be_negative_or_drawn_comes_through_a_file(tiny: Callable[..., Path], tmp_path: Path) -> None:
    mine = {**LOGNORMAL, "mu": {**NORMAL, "mean": -1.6}, "sigma": HALF_NORMAL}
    experiment = load_experiment(tiny(lambda settings: settings["scenarios"].update(mine={"per_step": mine})))
    again = tmp_path / "again.yaml"
    again.write_text(dump_experiment(experiment))
    assert load_experiment(again).scenarios["mine"] == Scenario.model_validate({"per_step": mine})
    assert experiment.scenarios["mine"].model_dump(exclude_none=True) == {"per_step": mine, "speed_change": 0.0}
