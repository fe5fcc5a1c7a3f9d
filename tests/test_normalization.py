"""What a model that keeps running statistics does not go with is refused when the experiment is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedhpc.experiment import load_experiment
from fedhpc.mistakes import ExperimentError

ROUNDS = {"scheduler": "synchronous", "cohort": 4}
LATE = {"cohort": 3, "over_selection": 5}
PRIVATE = {"mechanism": "dp_ftrl", "delta": 1e-5, "noise_multiplier": 1.0}
KEEPS = "task.model.name: cifar10_resnet18 keeps running statistics, which "
INSTEAD = "; take the model with group normalisation, cifar100_resnet18, or leave "


def mistakes(file: Path) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        load_experiment(file)
    return caught.value.mistakes


def with_model(name: str, algorithms: dict[str, Any], **more: Any) -> Callable[[dict[str, Any]], None]:
    def change(settings: dict[str, Any]) -> None:
        settings["task"]["model"] = {"name": name}
        settings["algorithms"] = algorithms
        settings.update(more)

    return change


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"scheduler": "feast", "decay": 0.5, "kappa": 0.5, **LATE},
        "late updates, teachers and auxiliary models have no rule for",
        "scheduler feast",
    ),
    (
        {"scheduler": "fare_dust", "histories": 3, "client": {"distillation": 0.1}, **LATE},
        "late updates, teachers and auxiliary models have no rule for",
        "scheduler fare_dust",
    ),
    (ROUNDS | {"client": {"distillation": 0.1}}, "a teacher has no rule for", "client.distillation"),
    (
        {
            "scheduler": "buffered",
            "buffer_size": 3,
            "concurrency": 8,
            "client": {"clip": 1.0},
            "privacy": PRIVATE,
        },
        "no clip bounds and noise would make negative",
        "privacy",
    ),
]


@pytest.mark.parametrize(("algorithm", "why", "key"), REFUSED)
def test_what_has_no_rule_for_statistics(
    tiny: Callable[..., Path], algorithm: dict[str, Any], why: str, key: str
) -> None:
    algorithms = {"plain": ROUNDS, "other": algorithm}
    found = mistakes(tiny(with_model("cifar10_resnet18", algorithms)))
    assert found == [f"{KEEPS}{why}{INSTEAD}{key} out of algorithms.other"]
    load_experiment(tiny(with_model("cifar100_resnet18", algorithms)))
    load_experiment(tiny(with_model("cifar10_resnet18", {"plain": ROUNDS})))


@pytest.mark.parametrize(
    "more",
    [
        {"overrides": {"domain": {"plain": {"client.distillation": 0.2}}}},
        {"tuning": {"metric": "loss", "grid": {"plain": {"client.distillation": [0.0, 0.1, 0.2]}}}},
    ],
)
def test_what_a_scenario_or_a_grid_adds_is_seen_too_and_told_once(
    tiny: Callable[..., Path], more: dict[str, Any]
) -> None:
    (told,) = mistakes(tiny(with_model("cifar10_resnet18", {"plain": ROUNDS}, **more)))
    assert told.startswith(f"{KEEPS}a teacher has no rule for")


def test_a_model_of_characters_reads_texts(tiny: Callable[..., Path]) -> None:
    mend = "take data of source text, or of source leaf, dataset shakespeare, or another model"
    words = f"task.model.name: shakespeare_lstm reads characters; {mend}"
    assert mistakes(tiny(with_model("shakespeare_lstm", {"plain": ROUNDS}))) == [words]
