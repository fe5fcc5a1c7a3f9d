"""Every experiment of the repository loads, and is planned where its data are not there."""

from pathlib import Path

import pytest

from fedhpc.data.settings import DataFile
from fedhpc.experiment import load_experiment
from fedhpc.task import NullTask, Task
from tests.workflow.experiments import fedhpc

FOLDER = Path(__file__).parents[1] / "configs/experiments"
FILES = sorted(FOLDER.rglob("*.yaml"))


def _reads_a_file(task: Task) -> bool:
    return not isinstance(task, NullTask) and isinstance(task.data, DataFile)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_it_loads(file: Path) -> None:
    experiment = load_experiment(file)
    assert experiment.title
    assert list(experiment.tried())


def test_names_are_their_own() -> None:
    names = [load_experiment(file).name for file in FILES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if _reads_a_file(load_experiment(file).task)],
    ids=lambda file: str(file.relative_to(FOLDER)),
)
def test_data_that_are_still_to_be_fetched_are_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDHPC_DATA", raising=False)
    planned = fedhpc("plan", file)
    assert planned.returncode == 0, planned.stderr
    assert "task.data.path: there is no file 'mnist_by_writer.h5'" in planned.stdout
