"""Law 3 for what is no plain classification: next words with tags, and pictures that are cropped and mirrored."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.data.preparation import prepared_data
from fedhpc.experiment import Run, load_experiment
from fedhpc.federation.checkpoint import load_checkpoint, save_checkpoint
from fedhpc.federation.engine import Engine
from fedhpc.mistakes import ExperimentError
from fedhpc.store import open_run
from tests.federations import Federation, Ranks
from tests.mpi import mpi, numbers, run_command
from tests.sentences import ALGORITHMS, sentence_experiment

PICTURES = {"crop": 5, "flip": True, "standardize": True}
OF_PICTURES = ["fedavg", "fedbuff"]


def with_pictures(settings: dict[str, Any]) -> None:
    settings["task"].update(
        data={"source": "digits", "held_out": 0.1},
        partition={"kind": "iid", "clients": 30},
        model={"name": "mlp", "hidden": [6]},
        pictures=PICTURES,
        metrics=["top5_accuracy", "balanced_accuracy"],
    )
    settings["algorithms"] = {name: settings["algorithms"][name] for name in OF_PICTURES}
    settings["evaluation"] = {"every": 6}


def same_on_1_and_2_ranks(file: Path, algorithms: list[str], folder: Path, step: str) -> dict[str, dict[str, bytes]]:
    """The numbers of each algorithm's run, which both gave."""
    for ranks in (1, 2):
        cell = Run(",".join(algorithms), "domain", 0)
        finished = mpi(ranks, run_command(file, cell, folder / str(ranks), step=step))
        assert finished.returncode == 0, finished.stderr
    found = {}
    for algorithm in algorithms:
        file_of = Run(algorithm, "domain", 0).file
        one, two = (numbers(file_of(folder / str(ranks), ".h5")) for ranks in (1, 2))
        assert one == two
        found[algorithm] = one
    return found


def test_next_words_with_tags(tmp_path: Path) -> None:
    file = sentence_experiment(tmp_path, [tmp_path / "1", tmp_path / "2"])
    found = same_on_1_and_2_ranks(file, list(ALGORITHMS), tmp_path, "{form: stacked, clients: 2}")
    for algorithm in ALGORITHMS:
        assert {"total_accuracy", "straggler_accuracy", "loss", "perplexity"} <= found[algorithm].keys()
        with open_run(Run(algorithm, "domain", 0).file(tmp_path / "2", ".h5")) as run:
            np.testing.assert_allclose(run.perplexity, np.exp(run.loss))
            assert run.loss[-1] < run.loss[0]
            assert run.straggler.values.tolist() == [0, 1, 0, 0, 1, 0]


def test_pictures_that_are_cropped_and_mirrored(tiny: Callable[..., Path], tmp_path: Path) -> None:
    found = same_on_1_and_2_ranks(tiny(with_pictures), OF_PICTURES, tmp_path, "{clients: 2}")
    assert {"top5_accuracy", "balanced_accuracy"} <= found["fedavg"].keys()
    with open_run(Run("fedavg", "domain", 0).file(tmp_path / "2", ".h5")) as run:
        assert (run.top5_accuracy >= run.total_accuracy).all()
        assert ((run.balanced_accuracy > 0) & (run.balanced_accuracy <= 1)).all()


class Killed(Exception):
    """Stands for a kill."""


def survives_a_kill(federation: Federation, path: Path) -> None:
    """A run that is killed half-way and goes on, on ranks that answer in any order, is the undisturbed one."""
    untroubled = federation.engine()
    untroubled.run()
    half = untroubled.applied // 2

    def pulse(engine: Engine) -> None:
        if engine.applied >= half:
            save_checkpoint(path, engine.checkpoint(), "digest", federation.choice)
            raise Killed

    with pytest.raises(Killed):
        federation.engine(Ranks(federation.training(), random.Random(1)), pulse=pulse).run()
    checkpoint = load_checkpoint(path, "digest", federation.choice)
    assert checkpoint is not None
    assert 0 < len(checkpoint.evaluated) < len(untroubled.evaluated)
    resumed = federation.engine(Ranks(federation.training(), random.Random(2)))
    resumed.restore(checkpoint)
    resumed.run()
    assert resumed.output().tobytes() == untroubled.output().tobytes()
    assert resumed.evaluated == untroubled.evaluated


def test_pictures_after_a_kill(tiny: Callable[..., Path], tmp_path: Path) -> None:
    federation = Federation.of(tiny(with_pictures), "fedbuff")
    survives_a_kill(federation, tmp_path / "trial-0.checkpoint")


def test_next_words_after_a_kill(tmp_path: Path) -> None:
    # Federation.of prepares in the folder ``data`` beside the experiment.
    federation = Federation.of(sentence_experiment(tmp_path, [tmp_path]), "fedbuff")
    federation.choice = StepChoice(form="plain")
    survives_a_kill(federation, tmp_path / "trial-0.checkpoint")


def test_a_target_of_balanced_accuracy_ends_a_run(tiny: Callable[..., Path], tmp_path: Path) -> None:
    cell = Run("fedbuff", "domain", 0)

    def with_target(settings: dict[str, Any], value: float) -> None:
        with_pictures(settings)
        settings["budget"]["target"] = {"metric": "balanced_accuracy", "value": value}

    assert mpi(1, run_command(tiny(with_pictures), cell, tmp_path / "whole")).returncode == 0
    with open_run(cell.file(tmp_path / "whole", ".h5")) as run:
        balanced = run.balanced_accuracy.values
    first = [int(np.argmax(balanced >= value)) for value in np.unique(balanced)]
    expected = min(first, key=lambda place: abs(place - len(balanced) // 2))
    assert 0 < expected < len(balanced) - 1
    file = tiny(lambda settings: with_target(settings, float(balanced[expected])))
    finished = mpi(2, run_command(file, cell, tmp_path / "target"))
    assert finished.returncode == 0, finished.stderr
    with open_run(cell.file(tmp_path / "target", ".h5")) as run:
        assert run.attrs["target_reached"] == 1
        assert run.balanced_accuracy.values.tolist() == balanced[: expected + 1].tolist()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"pictures": {"crop": 9}}, "task.pictures.crop: 9 exceeds the pictures' 8 by 8; lower it"),
        (
            {"pictures": {"crop": 5}, "model": {"name": "emnist_cnn"}},
            "task.model.name: emnist_cnn takes images of at least 6 by 6 pixels; the data's examples have the shape",
        ),
    ],
)
def test_a_crop_that_cannot_be_is_told(tiny: Callable[..., Path], change: dict[str, Any], sentence: str) -> None:
    def changed(settings: dict[str, Any]) -> None:
        with_pictures(settings)
        settings["task"] |= change

    file = tiny(changed)
    with pytest.raises(ExperimentError) as error:
        prepared_data(load_experiment(file), file.parent)
    (told,) = error.value.mistakes
    assert told.startswith(sentence)
