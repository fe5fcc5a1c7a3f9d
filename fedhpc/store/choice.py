"""What tuning chose for one algorithm in one scenario: a small JSON beside the tuning runs that it was chosen from."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedhpc.experiment import Experiment, Pair, Run, RunSettings, TuningRun
from fedhpc.mistakes import ExperimentError
from fedhpc.store.replacing import replacing


@dataclass(frozen=True)
class Choice:
    """``values``: key of the algorithm's settings -> value, of the point that won with this ``value`` of ``metric`` at
    its last evaluation; None where that is no number. ``points`` is how many there were, ``all_diverged`` whether none
    of them was sound, and ``grid_digest`` says which they were."""

    values: Mapping[str, Any]
    metric: str
    value: float | None
    points: int
    all_diverged: bool
    grid_digest: str


def tuning_folder(folder: Path, pair: Pair) -> Path:
    """Where a pair's tuning runs and choice lie."""
    return folder.joinpath("tuning", *pair)


def write_choice(folder: Path, pair: Pair, choice: Choice) -> None:
    """Puts the choice in place of the last. Raises OSError where the folder cannot be written."""
    with replacing(tuning_folder(folder, pair) / "choice.json") as temporary:
        temporary.write_text(json.dumps(asdict(choice), indent=1) + "\n", encoding="utf-8")


def read_choice(folder: Path, pair: Pair) -> Choice | None:
    """The choice last written, of whatever grid; None where there is none that can be read."""
    try:
        content = json.loads((tuning_folder(folder, pair) / "choice.json").read_text(encoding="utf-8"))
        choice = Choice(**{field.name: content[field.name] for field in fields(Choice)})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return choice if isinstance(choice.values, dict) else None


def choice_of(folder: Path, experiment: Experiment, pair: Pair) -> Choice | None:
    """The choice from the experiment's own grid; None where tuning has still to come to it."""
    choice = read_choice(folder, pair)
    return choice if choice is not None and choice.grid_digest == experiment.grid_digest(pair) else None


def settings_in(folder: Path, experiment: Experiment, run: Run) -> RunSettings:
    """The resolved settings of one run in this results folder: a tuned algorithm's trial has what was chosen there.

    Raises ExperimentError where nothing is chosen yet.
    """
    if isinstance(run, TuningRun) or run.pair not in experiment.pairs():
        return experiment.settings_of(run)
    choice = choice_of(folder, experiment, run.pair)
    try:
        if choice is not None:
            return experiment.settings_of(run, choice.values)
    except ValidationError:
        pass  # a file that somebody has written in
    raise ExperimentError(
        experiment.file,
        [
            f"tuning.grid.{run.algorithm}: nothing is chosen yet for scenario {run.scenario} in {folder}; tune first, "
            f"with `fedhpc sweep {experiment.file} --output {folder}`"
        ],
    )
