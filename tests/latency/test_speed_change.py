"""Speeds that change now and then (FedCompass, appendix G.2), and the paper's three distributions of speeds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.clients.settings import ClientSettings, TimeLimit
from fedhpc.experiment import load_experiment
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.latency.sampler import LatencySampler
from fedhpc.latency.scenario import Scenario
from fedhpc.mistakes import ExperimentError
from fedhpc.optimizers import SGD
from fedhpc.streams import Purpose

EXPONENTIAL = {"distribution": "exponential", "mean": 0.15}
CLIENTS = Population(np.full(2000, 10), np.zeros(2000, bool))


def per_step(own: dict[str, Any] | float, variation: float = 0.05) -> dict[str, Any]:
    """Section 5.1: a client's own mean time a step, and rounds around it."""
    return {"per_step": {"distribution": "normal", "mean": own, "variation": variation}}


def sampler(scenario: dict[str, Any], population: Population = CLIENTS, **others: Any) -> LatencySampler:
    return LatencySampler(Scenario.model_validate(scenario), population, 3, 1, **others)


def speeds(found: LatencySampler, client: int, participations: int) -> list[float]:
    return [found.factors(client, participation)[3] for participation in range(participations)]


def test_a_speed_changes_where_the_participations_coin_says_so_and_lasts() -> None:
    # Without noise a participation's time a step is the client's own. Independently: numpy's SeedSequence gives the
    # keys, Philox's counter holds participation and client; purpose 12 decides, purpose 7 gives the parameters.
    found = sampler({**per_step(EXPONENTIAL, 0.0), "speed_change": 0.3})

    def stream(purpose: int, client: int, participation: int) -> np.random.Generator:
        key = np.random.SeedSequence(3, spawn_key=(1, purpose)).generate_state(2, np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, participation, client]))

    changes = 0
    for client in (0, 1, 77):
        own = 0.15 * stream(7, client, 0).standard_exponential()
        for participation, drawn in enumerate(speeds(found, client, 40)):
            if participation and stream(12, client, participation).random() < 0.3:
                own = 0.15 * stream(7, client, participation).standard_exponential()
                changes += 1
            assert drawn == own
    # 117 coins of 0.3: 35 +- 5 standard deviations of 5.
    assert 10 < changes < 60


def test_the_share_of_changes_is_the_probability() -> None:
    found = sampler({**per_step(EXPONENTIAL, 0.0), "speed_change": 0.1})
    drawn = np.array([speeds(found, client, 11) for client in range(2000)])
    share = (drawn[:, 1:] != drawn[:, :-1]).mean()
    assert share == pytest.approx(0.1, abs=4.5 * np.sqrt(0.1 * 0.9 / 20_000))
    # A change is a draw anew from the distribution of all clients.
    changed = drawn[:, 1:][drawn[:, 1:] != drawn[:, :-1]]
    assert changed.mean() == pytest.approx(0.15, abs=4.5 * 0.15 / np.sqrt(len(changed)))


@pytest.mark.parametrize("own", [0.05, 0.9])
def test_speeds_do_not_depend_on_the_order_of_the_questions(own: float) -> None:
    scenario = {**per_step(EXPONENTIAL), "speed_change": own, "overhead": {**EXPONENTIAL, "mean": EXPONENTIAL}}
    keys = [(client, participation) for client in range(6) for participation in range(30)]
    forward = sampler(scenario)
    expected = {key: forward.factors(*key) for key in keys}
    chance = np.random.default_rng(0)
    for order in (keys[::-1], [keys[place] for place in chance.permutation(len(keys))]):
        other = sampler(scenario)
        assert {key: other.factors(*key) for key in order} == expected
    assert all(sampler(scenario).factors(*key) == expected[key] for key in keys[::13])


def test_without_changes_and_at_first_participations_numbers_are_as_they_were() -> None:
    plain, changing = sampler(per_step(EXPONENTIAL)), sampler({**per_step(EXPONENTIAL), "speed_change": 1.0})
    assert [plain.factors(client, 0) for client in range(50)] == [changing.factors(client, 0) for client in range(50)]
    assert plain.factors(0, 1) != changing.factors(0, 1)
    never = sampler({**per_step(EXPONENTIAL), "speed_change": 0.0})
    assert [never.duration(5, place, 10, 3) for place in range(20)] == [
        plain.duration(5, place, 10, 3) for place in range(20)
    ]


def test_durations_follow_the_same_changes_as_factors() -> None:
    found = sampler({**per_step(EXPONENTIAL), "speed_change": 0.4})
    for participation in range(20):
        *_, each = found.factors(9, participation)
        assert found.duration(9, participation, 10, 3) == each * 3


def test_a_forecast_knows_first_speeds_only() -> None:
    changing = {**per_step(EXPONENTIAL, 0.0), "speed_change": 1.0}
    first = [sampler(changing).factors(client, 0)[3] for client in range(50)]
    client = ClientSettings(batch_size=5, epochs=2, optimizer=SGD(name="sgd", rate=1.0))
    few = Population(np.full(50, 10), np.zeros(50, bool))
    time = ClientTime(client, Scenario.model_validate(changing), few, 3, 1)
    assert time.profile() == pytest.approx(first)
    # A time limit's percentile is taken of first speeds too: of 50 clients, 400 draws each of one value.
    limited = client.model_copy(update={"time_limit": TimeLimit(percentile=100)})
    assert ClientTime(limited, Scenario.model_validate(changing), few, 3, 1).limit == pytest.approx(4 * max(first))


def test_a_profile_is_a_participation_of_its_own_over_its_mini_batches() -> None:
    # Clients of 10 and 21 examples in batches of 5: 2 and 5 mini-batches an epoch.
    scenario = {"communication": EXPONENTIAL, "per_example": EXPONENTIAL, **per_step(EXPONENTIAL)}
    population = Population(np.array([10, 21]), np.zeros(2, bool))
    client = ClientSettings(batch_size=5, epochs=1, optimizer=SGD(name="sgd", rate=1.0))
    profile = ClientTime(client, Scenario.model_validate(scenario), population, 3, 1).profile()
    own = sampler(scenario, population, purpose=Purpose.PROFILE)
    assert profile == [own.duration(0, 0, 10, 2) / 2, own.duration(1, 0, 21, 5) / 5]
    real = sampler(scenario, population)
    assert profile[0] != real.duration(0, 0, 10, 2) / 2


@pytest.mark.parametrize(
    ("own", "mean", "std"),
    [
        (0.15, 0.15, 0.0),  # homogeneous
        ({"distribution": "normal", "mean": 0.15, "variation": 0.3}, 0.15, 0.045),
        (EXPONENTIAL, 0.15, 0.15),
    ],
)
def test_the_papers_speeds(own: Any, mean: float, std: float) -> None:
    """Section 5.1: t_i constant, N(mu, (0.3 mu)^2) or Exp(1 / mu); in round k N(t_i, (0.05 t_i)^2)."""
    found = sampler(per_step(own))
    drawn = np.array([speeds(found, client, 30) for client in range(2000)])
    of_clients = drawn.mean(axis=1)
    # Over clients: mean and standard deviation, to 4.5 standard errors (of an exponential's deviation: sqrt(2 / n)).
    # A mean of 30 rounds is the client's own to 0.05 / sqrt(30) = 0.9 %; a normal drawn again at 0 or less: 0.04 %.
    assert of_clients.mean() == pytest.approx(mean, rel=0.002, abs=4.5 * std / np.sqrt(2000))
    assert of_clients.std() == pytest.approx(std, abs=4.5 * std * np.sqrt(2 / 2000) + 0.01 * mean)
    # Around each client's own: 5 %, measured over 29 degrees of freedom each.
    within = np.sqrt((drawn.var(axis=1, ddof=1) / of_clients**2).mean())
    assert within == pytest.approx(0.05, rel=4.5 / np.sqrt(2 * 2000 * 29) + 0.002)


@pytest.mark.parametrize(
    ("scenario", "sentence"),
    [
        ({**per_step(0.15), "speed_change": 0.1}, "scenarios.mine.speed_change: no client has parameters of its own"),
        ({**per_step(EXPONENTIAL), "speed_change": 1.5}, "scenarios.mine.speed_change: 1.5 is not allowed"),
        ({**per_step(EXPONENTIAL), "speed_change": 0.1}, None),
        ({**per_step(0.15), "speed_change": 0.1, "stragglers": per_step(EXPONENTIAL)}, None),
    ],
)
def test_what_is_refused(tiny: Callable[..., Path], scenario: dict[str, Any], sentence: str | None) -> None:
    file = tiny(lambda content: content["scenarios"].update(mine=scenario))
    if sentence is None:
        assert load_experiment(file).scenarios["mine"].speed_change == 0.1
        return
    with pytest.raises(ExperimentError) as caught:
        load_experiment(file)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(sentence)
