"""The experiments of ``configs/experiments``, each read once, and their index."""

from functools import cache
from pathlib import Path
from typing import Any

from fedhpc.experiment import Experiment, load_experiment
from fedhpc.yaml_text import read_yaml

FOLDER = Path(__file__).parents[2] / "configs/experiments"
INDEX = FOLDER / "index.yaml"
FILES = sorted(file for file in FOLDER.rglob("*.yaml") if file != INDEX)


@cache
def experiment_of(place: str | Path) -> Experiment:
    """The experiment of a file, or of ``folder/name``."""
    return load_experiment(place if isinstance(place, Path) else FOLDER / f"{place}.yaml")


@cache
def index() -> dict[str, Any]:
    """Paper -> its ``title``, ``folder``, ``tables`` and ``figures``."""
    content: dict[str, Any] = read_yaml(INDEX)
    return content
