"""Whether an experiment fits its clients, the ways to compute its steps, and its site: told before anything starts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedhpc.clients.steps.candidates import UnfitChoice, candidates
from fedhpc.clients.steps.choice_file import OtherChoice, choice_file, refuse_other_choice
from fedhpc.clients.steps.step_choice import StepWishes
from fedhpc.data.federated import open_prepared
from fedhpc.experiment import Experiment
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers import Algorithm
from fedhpc.mistakes import ExperimentError
from fedhpc.overrides import algorithm_with, relocated
from fedhpc.task import Learning
from fedhpc.tuning import in_words
from workflow.sites import SiloSite, Site


def fitting(site: Site, experiment: Experiment, population: Population) -> Site:
    """The site as the experiment's runs need it: under a clock each client has a rank of its own."""
    return SiloSite.of(site, len(population)) if experiment.clock == "wall" else site


def refuse_unfit(experiment: Experiment, population: Population) -> None:
    """Raises ExperimentError where a scenario, an algorithm, or a point of its grid, cannot work with these clients."""
    mistakes = experiment.scenario_mistakes(population)
    for name, algorithm in experiment.algorithms.items():
        told = experiment.mistakes_of(algorithm, population)
        mistakes += [f"algorithms.{name}.{mistake}" for mistake in told]
        for place, values, tried in _variants(experiment, name):
            found = [mistake for mistake in experiment.mistakes_of(tried, population) if mistake not in told]
            mistakes += [relocated(place, values, mistake, in_words(values)) for mistake in found]
            told += found
    if mistakes:
        raise ExperimentError(experiment.file, mistakes)


def _variants(experiment: Experiment, name: str) -> Iterator[tuple[str, Mapping[str, Any], Algorithm]]:
    """An algorithm's variants: where the file gives them, their own values, and the algorithm with them."""
    for scenario, of_algorithms in experiment.overrides.items():
        if name in of_algorithms:
            yield f"overrides.{scenario}.{name}", of_algorithms[name], experiment.algorithm_in((name, scenario))
    for point in experiment.points(name).values():
        for scenario in experiment.scenarios:
            there = algorithm_with(experiment.algorithm_in((name, scenario)), point.values)
            yield f"tuning.grid.{name}", point.values, there


def refuse_wishes(experiment: Experiment, wishes: StepWishes) -> None:
    """Raises ExperimentError where an algorithm's steps cannot be computed as the site wishes; whether there is a GPU
    is seen where the runs are, and the model's size decides nothing here."""
    if not isinstance(experiment.task, Learning):
        return
    mistakes: dict[str, None] = {}
    for name, algorithm in experiment.tried():
        device = wishes.device or ("cuda" if algorithm.client.precision == "tf32" else "cpu")
        try:
            candidates(experiment.task.model, algorithm.client, device, algorithm.updates, 1, wishes)
        except UnfitChoice as error:
            mistakes[f"algorithms.{name}: {error}"] = None
    if mistakes:
        raise ExperimentError(experiment.file, list(mistakes))


def refuse_other_steps(experiment: Experiment, prepared: Path | None, folder: Path, wishes: StepWishes) -> None:
    """Raises ExperimentError where the folder's results were computed in another way than the site wishes."""
    if prepared is None or not isinstance(experiment.task, Learning):
        return
    data, mistakes = open_prepared(prepared), dict[str, None]()
    shape = experiment.task.model_shape(data.shape)
    for name, algorithm in experiment.tried():
        file = choice_file(folder / name, experiment.task.model, algorithm.client, shape, data.classes)
        try:
            refuse_other_choice(file, wishes)
        except OtherChoice as error:
            mistakes[f"algorithms.{name}: {error}"] = None
    if mistakes:
        raise ExperimentError(experiment.file, list(mistakes))
