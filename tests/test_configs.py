"""Every experiment of the repository loads, fits the clients that it is for, and is planned where its data are not
there."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from fedhpc.data.settings import DrawnPartition, Synthetic
from fedhpc.federation.population import Population
from fedhpc.task import Learning, NullTask
from tests.papers.experiments import FILES, FOLDER, experiment_of
from workflow.plan import print_plan
from workflow.sites import load_site

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))


@each_file
def test_it_loads(file: Path) -> None:
    experiment = experiment_of(file)
    assert experiment.title
    assert list(experiment.tried())


def test_names_are_their_own() -> None:
    names = [experiment_of(file).name for file in FILES]
    assert len(set(names)) == len(names)


OWN_CLIENTS = {
    "emnist/fed_emnist_train.h5": 3400,  # Hard et al., Table 6
    "cifar100/fed_cifar100_train.h5": 500,
    "stackoverflow/stackoverflow_train.h5": 342_477,
    "leaf/celeba/train": 9343,  # FedBuff, appendix B.1
    "leaf/sent140/train": 660_120 * 15 // 100,
    "leaf/shakespeare/train": 143,  # FedCore, Table 1
    "google_speech/client_data_mapping/train.csv": 3000,  # RELAY, Table 1, in thousands
    "openimage/client_data_mapping/train.csv": 15_000,
    "ixi": 3,  # FedCompass, Table 6
    "isic2019/ISIC_2019_Training_Input_preprocessed": 6,
    "mnist_by_writer.h5": 539,
    "shakespeare_roles_pd.h5": 1146,
}
"""The first file that data with clients of their own name -> how many clients they have."""


def population(task: Learning | NullTask) -> Population:
    """As many clients as the task has, with ten examples each."""
    stragglers = 0
    if isinstance(task, NullTask):
        clients, stragglers = task.clients, task.stragglers
    elif isinstance(task.partition, DrawnPartition):
        clients = task.partition.clients
    elif isinstance(task.data, Synthetic):
        clients = task.data.clients
    else:
        clients = OWN_CLIENTS[str(next(place for key, place in task.files.items() if key.startswith("data.")))]
    if isinstance(task, Learning) and task.stragglers is not None:
        stragglers = task.stragglers.clients or clients // 4
    return Population(np.full(clients, 10), np.arange(clients) >= clients - stragglers)


@each_file
def test_its_algorithms_fit_as_many_clients_as_there_are(file: Path) -> None:
    experiment = experiment_of(file)
    clients = population(experiment.task)
    assert [found for _, each in experiment.tried() for found in experiment.mistakes_of(each, clients)] == []


OF_FILES = [file for file in FILES if isinstance(experiment_of(file).task, Learning) and experiment_of(file).task.files]


@pytest.mark.parametrize("file", OF_FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_data_that_are_still_to_be_fetched_are_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDHPC_DATA", raising=False)
    experiment = experiment_of(file)
    assert isinstance(experiment.task, Learning)
    console = Console(width=200, record=True, file=io.StringIO())
    print_plan(experiment, load_site(None), console)
    told = console.export_text()
    assert "warning: without the data there is no estimate" in told
    for key, path in experiment.task.files.items():
        assert f"task.{key}: there is no " in told
        assert f"'{path}'" in told
