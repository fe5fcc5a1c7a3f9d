"""How long the task's clients take under each scenario, as the federation itself draws it, by group of clients (Hard et
al., Figures 9-11 and Tables 7-9)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedhpc.data.federated import open_population, open_shape
from fedhpc.data.preparation import population_of
from fedhpc.experiment import Experiment
from fedhpc.federation.client_time import ClientTime
from fedhpc.federation.population import Population
from fedhpc.models.parameters import parameters_of
from fedhpc.task import NullTask

DRAWS = 10_000
"""Of each group and scenario, about."""

PERCENTILES = (50, 95, 99)

GROUPS = ("standard", "straggler", "all")
"""Groups of clients; "all" where the task has no straggler clients, whatever a scenario's name says of stragglers."""


class Latencies(dict[tuple[str, str], NDArray[np.float64]]):
    """(scenario, group) -> virtual seconds from download to upload, ascending. ``shares``: of the clients, by group;
    ``algorithm``: whose work it is."""

    def __init__(self, algorithm: str, shares: Mapping[str, float]) -> None:
        super().__init__()
        self.algorithm, self.shares = algorithm, shares


def draw_latencies(experiment: Experiment, population: Population) -> Latencies | None:
    """About ``DRAWS`` participations of each group, every client with examples as often as any other of its group, with
    the first algorithm's epochs or steps and no time limit. They are the first ones that trial 0 would draw.

    None under a clock, or where no client holds an example. Raises ExperimentError where one of a scenario's files is
    missing or damaged.
    """
    if experiment.clock == "wall" or not (population.examples > 0).any():
        return None
    algorithm, settings = next(iter(experiment.algorithms.items()))
    client = settings.client.model_copy(update={"time_limit": None, "within_deadline": None})
    held = population.examples > 0
    slow = population.stragglers
    groups = {"standard": held & ~slow, "straggler": held & slow} if slow.any() else {"all": held}
    members = {group: np.flatnonzero(of_group) for group, of_group in groups.items() if of_group.any()}
    found = Latencies(algorithm, {group: clients.size / int(held.sum()) for group, clients in members.items()})
    for name in experiment.scenarios:
        of = ClientTime(client, experiment.located(name), population, experiment.seed, 0).of
        for group, clients in members.items():
            each = max(1, DRAWS // clients.size)
            # Of a larger group, clients from all over it.
            some = clients[np.linspace(0, clients.size - 1, min(DRAWS, clients.size)).astype(np.int64)].tolist()
            examples = population.examples
            seconds = [of(one, draw, examples.item(one))[1] for one in some for draw in range(each)]
            found[name, group] = np.sort(seconds)
    return found


def population_in(experiment: Experiment, folder: Path, dataset: xr.Dataset | None) -> Population | None:
    """The clients of a results folder: as its first finished run has them, or as they are prepared there; None where
    neither is there."""
    if isinstance(experiment.task, NullTask):
        return population_of(experiment.task, None)
    prepared = next(iter(sorted((folder / "data").glob("*.hdf5"))), None)
    parameters = None
    sized = any(one.devices is not None and one.devices.model_kbit is None for one in experiment.scenarios.values())
    if sized:
        if prepared is None:
            return None
        shape, classes, words = open_shape(prepared)
        parameters = parameters_of(experiment.task.model, experiment.task.model_shape(shape), classes, words)
    if dataset is not None:
        runs = dataset[["examples", "straggler"]].stack(run=("algorithm", "scenario", "trial"))
        examples, slow = (runs[name].transpose("run", "client").values for name in ("examples", "straggler"))
        first = int(np.isfinite(examples).any(axis=1).argmax())
        there = np.isfinite(examples[first])
        return Population(examples[first][there].astype(np.int64), slow[first][there] == 1, parameters)
    if prepared is None:
        return None
    own = open_population(prepared)
    return Population(own.examples, own.stragglers, parameters)
