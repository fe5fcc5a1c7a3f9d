"""What cannot be under a clock, or only there, is refused with the key's path and the mend."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.experiment import load_experiment
from fedhpc.federation.population import Population
from fedhpc.federation.wall_settings import wall_mistakes
from fedhpc.mistakes import ExperimentError

SECONDS = {"distribution": "constant", "value": 1}
TWELVE = Population(np.full(12, 5, np.int64), np.zeros(12, np.bool_))


def by_the_clock(settings: dict[str, Any]) -> None:
    settings["clock"] = "wall"
    settings["scenarios"] = {"here": {"slowdown": 1}}


@pytest.fixture
def told(tiny: Callable[..., Path]) -> Callable[[Callable[[dict[str, Any]], None]], str]:
    """What is said of the tiny experiment under a clock, changed."""

    def of(change: Callable[[dict[str, Any]], None]) -> str:
        def both(settings: dict[str, Any]) -> None:
            by_the_clock(settings)
            change(settings)

        with pytest.raises(ExperimentError) as error:
            load_experiment(tiny(both))
        return str(error.value)

    return of


def test_silence_has_a_default_under_a_clock_and_no_place_without(tiny: Callable[..., Path]) -> None:
    assert load_experiment(tiny()).silence is None
    assert load_experiment(tiny()).clock == "virtual"
    experiment = load_experiment(tiny(by_the_clock))
    assert experiment.silence == 30
    with pytest.raises(ExperimentError, match=r"silence: virtual clients are never silent; remove it, or give clock"):
        load_experiment(tiny(lambda settings: settings.update(silence=5)))


def test_latencies_are_measured_and_not_given(told: Callable[..., str]) -> None:
    sentence = told(lambda settings: settings["scenarios"]["here"].update(per_step=SECONDS))
    assert "scenarios.here.per_step: under clock: wall silos take the time that they take; give slowdown" in sentence
    sentence = told(lambda settings: settings["scenarios"].update(slow={"overhead": SECONDS}))
    assert "scenarios.slow.overhead: under clock: wall" in sentence


def test_slowdown_needs_a_clock(tiny: Callable[..., Path]) -> None:
    with pytest.raises(ExperimentError, match=r"scenarios.alike.slowdown: slows real steps, and under clock: virtual"):
        load_experiment(tiny(lambda settings: settings["scenarios"]["alike"].update(slowdown=2)))


@pytest.mark.parametrize("slowdown", [0.5, [1, 0.9], []])
def test_nobody_is_faster_than_he_is(told: Callable[..., str], slowdown: object) -> None:
    assert "slowdown" in told(lambda settings: settings["scenarios"]["here"].update(slowdown=slowdown))


def test_a_null_task_has_nothing_to_measure(told: Callable[..., str]) -> None:
    task = {"kind": "null", "clients": 3, "examples": 5}
    assert "the null task trains nothing, so that a clock has nothing" in told(lambda all: all.update(task=task))


def test_factors_are_one_for_each_client(tiny: Callable[..., Path]) -> None:
    def three(settings: dict[str, Any]) -> None:
        by_the_clock(settings)
        settings["scenarios"]["here"]["slowdown"] = [1, 1, 4]

    assert load_experiment(tiny(three)).scenario_mistakes(TWELVE) == [
        "scenarios.here.slowdown: 3 factors for 12 clients; give one for each, in the clients' order, or one "
        "number for all"
    ]
    assert load_experiment(tiny(by_the_clock)).scenario_mistakes(TWELVE) == []


REFUSED = {
    "scheduler: fare_dust": {
        "scheduler": "fare_dust",
        "cohort": 3,
        "over_selection": 4,
        "histories": 2,
        "client": {"distillation": 0.1},
        "ema": {"decay": 0.9},
    },
    "scheduler: feast": {
        "scheduler": "feast",
        "cohort": 3,
        "over_selection": 4,
        "decay": 0.9,
        "kappa": 0.5,
        "tau_max": 9,
    },
    "privacy: its noise": {
        "scheduler": "synchronous",
        "cohort": 3,
        "weighting": "uniform",
        "client": {"clip": 1},
        "privacy": {"mechanism": "dp_sgd", "delta": 1e-5, "noise_multiplier": 1},
    },
    "client.distillation: silos": {"scheduler": "synchronous", "cohort": 3, "client": {"distillation": 0.5}},
    "client.within_deadline: counts": {"scheduler": "synchronous", "cohort": 3, "client": {"within_deadline": "drop"}},
    "client.time_limit: counts": {"scheduler": "synchronous", "cohort": 3, "client": {"time_limit": {"seconds": 1}}},
    "client.time_limit: counts virtual": {
        "scheduler": "synchronous",
        "cohort": 3,
        "client": {"time_limit": {"percentile": 75}},
    },
    "arrivals: silos are few": {"scheduler": "buffered", "buffer_size": 2, "arrivals": {"rate": 1}},
}


@pytest.mark.parametrize("beginning", REFUSED)
def test_what_needs_virtual_time_is_refused(tiny: Callable[..., Path], beginning: str) -> None:
    def with_it(settings: dict[str, Any]) -> None:
        by_the_clock(settings)
        settings["algorithms"] = {"mine": REFUSED[beginning]}

    experiment = load_experiment(tiny(with_it))
    mistakes = experiment.mistakes_of(experiment.algorithms["mine"], TWELVE)
    assert any(mistake.startswith(beginning) for mistake in mistakes), mistakes
    assert all("clock: virtual" in mistake for mistake in wall_mistakes(experiment.algorithms["mine"]))


def test_the_others_are_not(tiny: Callable[..., Path]) -> None:
    experiment = load_experiment(tiny(by_the_clock))
    assert [experiment.mistakes_of(algorithm, TWELVE) for algorithm in experiment.algorithms.values()] == [[]] * 4


def test_a_clock_is_part_of_a_runs_hash(tiny: Callable[..., Path]) -> None:
    def digest(change: Callable[[dict[str, Any]], None]) -> str:
        experiment = load_experiment(tiny(change))
        return experiment.settings_of(next(experiment.runs())).digest("")

    def patient(settings: dict[str, Any]) -> None:
        by_the_clock(settings)
        settings["silence"] = 60

    assert digest(by_the_clock) != digest(patient)
    assert digest(by_the_clock) != digest(lambda settings: None)
