"""Every experiment of the repository loads, and is planned where its data are not there."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from fedhpc.data.settings import DataFile, TextFile
from fedhpc.experiment import load_experiment
from fedhpc.task import Classification
from workflow.plan import print_plan
from workflow.sites import load_site

FOLDER = Path(__file__).parents[1] / "configs/experiments"
FILES = sorted(FOLDER.rglob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_it_loads(file: Path) -> None:
    experiment = load_experiment(file)
    assert experiment.title
    assert list(experiment.tried())


def test_names_are_their_own() -> None:
    names = [load_experiment(file).name for file in FILES]
    assert len(set(names)) == len(names)


def of_a_file(file: Path) -> bool:
    task = load_experiment(file).task
    return isinstance(task, Classification) and isinstance(task.data, DataFile | TextFile)


@pytest.mark.parametrize(
    "file", [file for file in FILES if of_a_file(file)], ids=lambda file: str(file.relative_to(FOLDER))
)
def test_data_that_are_still_to_be_fetched_are_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDHPC_DATA", raising=False)
    experiment = load_experiment(file)
    assert isinstance(experiment.task, Classification)
    assert isinstance(experiment.task.data, DataFile | TextFile)
    console = Console(width=200, record=True, file=io.StringIO())
    print_plan(experiment, load_site(None), console)
    assert f"task.data.path: there is no file '{experiment.task.data.path}'" in console.export_text()
