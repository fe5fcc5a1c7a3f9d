"""What an algorithm has otherwise in one scenario."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedhpc.experiment import Run, load_experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.overrides import with_values


def overridden(**scenarios: Any) -> Callable[[dict[str, Any]], None]:
    return lambda settings: settings.update(overrides=scenarios)


def test_values_replace_what_lies_deep_and_leave_the_rest() -> None:
    before = {"a": {"b": {"c": 1, "d": 2}}, "e": 3}
    assert with_values(before, {"a.b.c": 4, "e": 5, "f.g": 6}) == {"a": {"b": {"c": 4, "d": 2}}, "e": 5, "f": {"g": 6}}
    assert before == {"a": {"b": {"c": 1, "d": 2}}, "e": 3}


def test_only_the_named_algorithm_in_the_named_scenario_changes(tiny: Callable[..., Path]) -> None:
    plain = load_experiment(tiny())
    changed = load_experiment(tiny(overridden(domain={"prox": {"client.optimizer.rate": 0.5, "cohort": 5}})))
    for algorithm in plain.algorithms:
        for scenario in plain.scenarios:
            run = Run(algorithm, scenario, 1)
            before, after = plain.settings_of(run), changed.settings_of(run)
            if (algorithm, scenario) != ("prox", "domain"):
                assert before.digest("") == after.digest("")
                continue
            assert before.digest("") != after.digest("")
            assert after.algorithm.client.optimizer.rate == 0.5
            # What is not named stays, be it the algorithm's own or a default.
            assert after.algorithm.client.proximal == 0.5
            assert after.algorithm.client.optimizer.momentum == 0.9  # type: ignore[union-attr]
            assert (after.algorithm.updates, before.algorithm.updates) == (5, 4)


def test_a_tuned_algorithm_is_tuned_from_what_it_is_in_the_scenario(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["overrides"] = {"domain": {"prox": {"cohort": 5}}}
        settings["tuning"] = {"metric": "loss", "grid": {"prox": {"client.optimizer.rate": [0.1, 0.2]}}}

    experiment = load_experiment(tiny(change))
    found = {
        (run.scenario, settings.algorithm.client.optimizer.rate, settings.algorithm.updates)
        for pair in experiment.pairs()
        for run in experiment.tuning_runs(pair)
        for settings in [experiment.settings_of(run)]
    }
    assert found == {("alike", 0.1, 4), ("alike", 0.2, 4), ("domain", 0.1, 5), ("domain", 0.2, 5)}
    chosen = experiment.settings_of(Run("prox", "domain", 0), {"client.optimizer.rate": 0.2})
    assert (chosen.algorithm.client.optimizer.rate, chosen.algorithm.updates) == (0.2, 5)


@pytest.mark.parametrize(
    ("scenarios", "sentence"),
    [
        ({"domian": {"prox": {"cohort": 5}}}, "overrides.domian: unknown scenario; did you mean 'domain'?"),
        ({"domain": {"prix": {"cohort": 5}}}, "overrides.domain.prix: unknown algorithm; did you mean 'prox'?"),
        ({"domain": {"prox": {"cohort": 0}}}, "overrides.domain.prox.cohort: 0 is not allowed"),
        ({"domain": {"prox": {"cohrt": 5}}}, "overrides.domain.prox.cohrt: unknown key; did you mean 'cohort'?"),
        (
            {"domain": {"fedbuff": {"buffer_size": 200}}},
            "overrides.domain.fedbuff.buffer_size: 200 exceeds concurrency 8; lower it or raise concurrency",
        ),
        (
            {"domain": {"fedbuff": {"concurrency": 2}}},
            "overrides.domain.fedbuff: with concurrency 2, buffer_size: 3 exceeds concurrency 2",
        ),
    ],
)
def test_mistakes_are_told_by_their_place(tiny: Callable[..., Path], scenarios: Any, sentence: str) -> None:
    with pytest.raises(ExperimentError) as told:
        load_experiment(tiny(overridden(**scenarios)))
    assert [one for one in told.value.mistakes if one.startswith(sentence)], told.value.mistakes


def test_a_grid_must_fit_what_the_algorithm_is_in_every_scenario(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["overrides"] = {"domain": {"fedbuff": {"concurrency": 3}}}
        settings["tuning"] = {"metric": "loss", "grid": {"fedbuff": {"buffer_size": [2, 5]}}}

    with pytest.raises(ExperimentError) as told:
        load_experiment(tiny(change))
    assert told.value.mistakes == [
        "tuning.grid.fedbuff.buffer_size: 5 exceeds concurrency 3; lower it or raise concurrency"
    ]
