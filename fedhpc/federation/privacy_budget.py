"""From an algorithm's privacy settings to the noise of its server updates, and to the epsilon that a run has spent."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from fedhpc.experiment import RunSettings
from fedhpc.federation.population import Population
from fedhpc.federation.privacy import GaussianNoise, TreeNoise, noise_std
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.updates import ScheduleError, ServerUpdate

Noise = Callable[[ServerUpdate], NDArray[np.float32]]


def noise_multiplier(settings: RunSettings, population: Population) -> float:
    """The noise multiplier that the settings give, or the smallest with which the whole run spends their epsilon.

    Raises ScheduleError where no client update is ever aggregated.
    """
    privacy = settings.algorithm.privacy
    assert privacy is not None
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier
    return _noise_for(settings, population, _steps_of_trees(settings, population))


def spent_epsilon(
    settings: RunSettings, population: Population, multiplier: float, steps_of_trees: Mapping[int, int]
) -> float:
    """The epsilon, at the settings' delta, of a run that came to so many server updates in each tree."""
    privacy = settings.algorithm.privacy
    assert privacy is not None
    from fedhpc.federation.accounting import epsilon_of_sampled_gaussian, epsilon_of_tree

    if privacy.mechanism == "dp_ftrl":
        return epsilon_of_tree(multiplier, [*steps_of_trees.values()], privacy.delta)
    probability = _sampling_probability(settings, population)
    return epsilon_of_sampled_gaussian(multiplier, probability, sum(steps_of_trees.values()), privacy.delta)


def planned(settings: RunSettings, population: Population) -> tuple[float, float]:
    """The noise multiplier of a run that goes to the end of its budget, and the epsilon that it then has spent.

    Raises ScheduleError where no client update is ever aggregated.
    """
    privacy = settings.algorithm.privacy
    assert privacy is not None
    steps = _steps_of_trees(settings, population)
    multiplier = privacy.noise_multiplier or _noise_for(settings, population, steps)
    return multiplier, spent_epsilon(settings, population, multiplier, steps)


def make_noise(settings: RunSettings, multiplier: float, parameters: int) -> Noise:
    """The noise that a server update's weighted sum gets, float32 [parameters]."""
    algorithm = settings.algorithm
    assert algorithm.privacy is not None
    assert algorithm.client.clip is not None
    std = noise_std(multiplier, algorithm.client.clip, algorithm.largest_weight)
    if algorithm.privacy.mechanism == "dp_ftrl":
        tree = TreeNoise(settings.seed, settings.trial, std, parameters)
        return lambda update: tree.increment(*update.tree_step)
    fresh = GaussianNoise(settings.seed, settings.trial, std, parameters)
    return lambda update: fresh.of(update.version)


def _noise_for(settings: RunSettings, population: Population, steps_of_trees: Mapping[int, int]) -> float:
    """The smallest noise multiplier with which so many server updates in each tree spend the settings' epsilon."""
    privacy = settings.algorithm.privacy
    assert privacy is not None
    assert privacy.epsilon is not None
    from fedhpc.federation.accounting import noise_for_sampled_gaussian, noise_for_tree

    if not steps_of_trees:
        raise ScheduleError(
            "privacy.epsilon: the budget ends before the first server update, and there is nothing to make noise for; "
            "raise the budget, or give noise_multiplier"
        )
    if privacy.mechanism == "dp_ftrl":
        return noise_for_tree(privacy.epsilon, [*steps_of_trees.values()], privacy.delta)
    probability = _sampling_probability(settings, population)
    return noise_for_sampled_gaussian(privacy.epsilon, probability, sum(steps_of_trees.values()), privacy.delta)


def _sampling_probability(settings: RunSettings, population: Population) -> float:
    return settings.algorithm.updates / len(population)


def _steps_of_trees(settings: RunSettings, population: Population) -> dict[int, int]:
    """Server updates of each tree, in a run that goes to the end of its budget."""
    steps: dict[int, int] = {}
    for update in make_schedule(settings, population).server_updates():
        if update.version:
            tree, step = update.tree_step
            steps[tree] = step
    return steps
