"""What a task's parts say to each other when an experiment is read, and what they leave as it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpc.experiment import load_experiment
from fedhpc.mistakes import ExperimentError
from tests.sentences import sentence_experiment

Change = Callable[[dict[str, Any]], Any]
IXI = {"source": "flamby", "dataset": "ixi", "folder": "ixi"}


def told(file: Path) -> str:
    with pytest.raises(ExperimentError) as error:
        load_experiment(file)
    (sentence,) = error.value.mistakes
    return sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda settings: settings["task"].update(kind="classification"),
            "task.data.source: tff, dataset stackoverflow, labels each next token; take kind next_words, or other data",
        ),
        (
            lambda settings: settings["task"].update(model={"name": "mlp"}),
            "task.model.name: mlp scores each example, and the task's labels are those of each next token; name stack",
        ),
        (
            lambda settings: settings["task"].update(kind="segmentation"),
            "task.data.source: tff, dataset stackoverflow, labels each next token; take kind next_words, or source",
        ),
        (
            lambda settings: settings["task"].update(data=IXI),
            "task.data.source: flamby, dataset ixi, labels each voxel; take kind segmentation, or source tff",
        ),
        (
            lambda settings: settings["task"].update(partition={"kind": "dirichlet", "clients": 3, "concentration": 1}),
            "task.partition.kind: dirichlet deals examples by their labels, of which these have many each; take by_col",
        ),
        (
            lambda settings: settings["task"].update(stragglers={"classes": [1], "clients": 2}),
            "task.stragglers.classes: an example here has many labels; take tags, or leave stragglers out",
        ),
        (
            lambda settings: settings["budget"].update(target={"metric": "dice", "value": 0.5}),
            "budget.target.metric: the task does not measure dice; name total_accuracy or straggler_accuracy",
        ),
    ],
)
def test_next_words(tmp_path: Path, change: Change, sentence: str) -> None:
    file = sentence_experiment(tmp_path, [])
    settings = yaml.safe_load(file.read_text())
    change(settings)
    file.write_text(yaml.safe_dump(settings))
    with pytest.raises(ExperimentError) as error:
        load_experiment(file)
    assert any(one.startswith(sentence) for one in error.value.mistakes), error.value.mistakes


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda settings: settings["task"].update(model={"name": "stackoverflow_lstm"}),
            "task.model.name: stackoverflow_lstm scores each next token, and the task's labels are those of each",
        ),
        (
            lambda settings: settings["task"].update(model={"name": "unet3d"}),
            "task.model.name: unet3d scores each voxel, and the task's labels are those of each example; name another",
        ),
        (
            lambda settings: settings["task"].update(kind="next_words"),
            "task.data.source: file labels each example; take kind classification, or source tff",
        ),
        (
            lambda settings: settings["task"].update(stragglers={"tags": ["math"]}),
            "task.data.tag: missing; stragglers.tags needs the column that holds them",
        ),
        (
            lambda settings: settings["task"].update(metrics=["top5_accuracy", "top5_accuracy"]),
            "task.metrics: one is named twice; name each once",
        ),
        (
            lambda settings: settings["budget"].update(target={"metric": "balanced_accuracy", "value": 0.5}),
            "budget.target.metric: the task does not measure balanced_accuracy; name total_accuracy or "
            "straggler_accuracy, or add balanced_accuracy to task.metrics",
        ),
        (
            lambda settings: settings.update(
                tuning={"metric": "dice", "grid": {"fedavg": {"client.optimizer.rate": [1]}}}
            ),
            "tuning.metric: the task does not measure dice; name total_accuracy or straggler_accuracy",
        ),
        (
            lambda settings: settings.update(
                published=[
                    {
                        "table": "fedbuff_table_1",
                        "scenario": "domain",
                        "rows": {"fedbuff": "FedBuff"},
                        "at": {"top5_accuracy": 0.9},
                    }
                ]
            ),
            "published.0.at.top5_accuracy: the task measures no such thing",
        ),
    ],
)
def test_classification(tiny: Callable[..., Path], change: Change, sentence: str) -> None:
    with pytest.raises(ExperimentError) as error:
        load_experiment(tiny(change))
    assert any(one.startswith(sentence) for one in error.value.mistakes), error.value.mistakes


def with_coresets(settings: dict[str, Any]) -> None:
    client = settings["client"] | {"within_deadline": "coreset", "epochs": 3}
    settings["algorithms"] = {"fedcore": {"scheduler": "synchronous", "cohort": 3, "client": client}}
    settings["scenarios"] = {
        "domain": {
            "communication": {"distribution": "lognormal", "mu": 0, "sigma": 1},
            "capability": {"distribution": "normal", "mean": 1, "std": 0.25},
            "straggler_percent": 50,
        }
    }


def test_coresets_are_of_whole_examples_as_they_lie(tiny: Callable[..., Path], tmp_path: Path) -> None:
    key = "algorithms.fedcore.client.within_deadline: coreset"

    def changed(settings: dict[str, Any]) -> None:
        with_coresets(settings)
        settings["task"]["pictures"] = {"flip": True}

    assert told(tiny(changed)) == (
        f"{key} chooses among examples as they lie in the data; leave task.pictures out, or take fewer_epochs"
    )
    (tmp_path / "words").mkdir()
    with pytest.raises(ExperimentError, match=f"{key} tells examples by the gradient of the one label"):
        sentence_experiment(tmp_path / "words", [], with_coresets)


def test_a_teacher_has_no_word_on_the_dice_score(tiny: Callable[..., Path]) -> None:
    def changed(settings: dict[str, Any]) -> None:
        settings["task"] = {"kind": "segmentation", "data": IXI, "partition": {"kind": "by_column"}}
        settings["task"]["model"] = {"name": "unet3d"}
        settings["algorithms"]["fedbuff"]["client"] = {"distillation": 0.5}
        del settings["scenarios"]["domain"]

    with pytest.raises(ExperimentError, match=r"algorithms.fedbuff.client.distillation: is a cross-entropy, and segm"):
        load_experiment(tiny(changed))


def keys(file: Path) -> list[str]:
    experiment = load_experiment(file)
    runs = list(experiment.runs())
    return [experiment.settings_of(run).key for run in (runs[0], runs[-1])]


def without_stragglers(settings: dict[str, Any]) -> None:
    del settings["task"]["stragglers"], settings["scenarios"]["domain"]


@pytest.mark.parametrize(
    ("change", "before"),
    [
        (lambda settings: None, ["3c00ce64f313ac89", "a25f21acf97aa262"]),
        (without_stragglers, ["9f47cee585201719", "84245d5846ed4a97"]),
        (
            lambda settings: settings.update(task={"kind": "null", "clients": 12, "examples": 3, "stragglers": 2}),
            ["9e57f55937a95ee8", "185dad0e927534b3"],
        ),
        (
            lambda settings: settings["budget"].update(target={"metric": "straggler_accuracy", "value": 0.5}),
            ["008db6b4f9821509", "683a632632146521"],
        ),
    ],
)
def test_runs_are_called_as_before_there_were_other_tasks(
    tiny: Callable[..., Path], change: Change, before: list[str]
) -> None:
    # What the version before gave. A result is kept as long as its name is.
    assert keys(tiny(change)) == before
