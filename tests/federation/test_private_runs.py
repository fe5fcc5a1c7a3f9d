"""Differential privacy in whole schedules and runs: who takes part in which noise, and what that is worth."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, SingleEpochTreeAggregationDpEvent
from dp_accounting import NeighboringRelation as Relation
from dp_accounting.rdp import RdpAccountant

from fedhpc.experiment import Run, load_experiment
from fedhpc.federation.population import Population
from fedhpc.federation.privacy_budget import make_noise, noise_multiplier
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.server_model import ServerModel
from fedhpc.federation.updates import ScheduleError
from fedhpc.store import open_run
from tests.mpi import mpi, numbers, run_command

TREE = {"mechanism": "dp_ftrl", "noise_multiplier": 1.5, "delta": 1e-5}
FRESH = {"mechanism": "dp_sgd", "noise_multiplier": 1.5, "delta": 1e-5}
ROUNDS = {"scheduler": "synchronous", "cohort": 3, "weighting": "uniform"}
ALGORITHMS: dict[str, Any] = {
    "buffered_tree": {"scheduler": "buffered", "buffer_size": 3, "concurrency": 5, "privacy": TREE},
    "rounds_tree": {
        "scheduler": "synchronous",
        "cohort": 3,
        "over_selection": 4,
        "weighting": "uniform",
        "privacy": TREE,
    },
    "rounds_fresh": {"scheduler": "synchronous", "cohort": 3, "weighting": "uniform", "privacy": FRESH},
}


def private(settings: dict[str, Any]) -> None:
    settings["algorithms"] = ALGORITHMS
    settings["client"]["clip"] = 0.2


@pytest.mark.parametrize("algorithm", ["buffered_tree", "rounds_tree"])
def test_a_client_is_aggregated_once_a_tree_at_most(tiny: Callable[..., Path], algorithm: str) -> None:
    settings = load_experiment(tiny(private)).settings_of(Run(algorithm, "domain", 0))
    settings = settings.model_copy(update={"budget": settings.budget.model_copy(update={"client_updates": 600})})
    population = Population(np.arange(1, 13), np.zeros(12, bool))
    in_tree: dict[int, list[int]] = {}
    steps: dict[int, list[int]] = {}
    for update in make_schedule(settings, population).server_updates():
        if update.version:
            tree, step = update.tree_step
            in_tree.setdefault(tree, []).extend(one.client for one in update.updates)
            steps.setdefault(tree, []).append(step)
    assert len(in_tree) > 10
    for tree, clients in in_tree.items():
        assert len(set(clients)) == len(clients)
        assert steps[tree] == list(range(1, len(steps[tree]) + 1))
    assert list(in_tree) == list(range(len(in_tree)))


def test_poisson_rounds_have_any_size_and_one_divisor(tiny: Callable[..., Path]) -> None:
    settings = load_experiment(tiny(private)).settings_of(Run("rounds_fresh", "domain", 0))
    budget = settings.budget.model_copy(update={"client_updates": None, "server_updates": 4000})
    settings = settings.model_copy(update={"budget": budget})
    population = Population(np.ones(12, np.int64), np.zeros(12, bool))
    updates = [update for update in make_schedule(settings, population).server_updates() if update.version]
    sizes = np.array([len(update.updates) for update in updates])
    assert all(update.weights == [1 / 3] * len(update.updates) for update in updates)
    # Binomial of 12 with probability 1/4: P(0) = 0.75^12 = 0.0317, mean 3, variance 2.25.
    assert (sizes == 0).mean() == pytest.approx(0.75**12, abs=4 * np.sqrt(0.0317 / 4000))
    assert sizes.mean() == pytest.approx(3, abs=4 * 1.5 / np.sqrt(4000))
    assert sizes.var() == pytest.approx(2.25, rel=0.15)
    # A round of nobody takes no time.
    empty = np.flatnonzero(sizes == 0)
    assert all(updates[number].time == updates[number - 1].time for number in empty if number)


def test_the_noise_goes_into_the_servers_step(tiny: Callable[..., Path]) -> None:
    settings = load_experiment(tiny(private)).settings_of(Run("buffered_tree", "domain", 0))
    noise = make_noise(settings, 1.5, 2)
    start = np.array([1.0, -2.0], np.float32)
    model = ServerModel(settings.algorithm, start, noise)
    population = Population(np.arange(1, 13), np.zeros(12, bool))
    total, expected = np.array([0.5, 0.25], np.float32), start
    for update in make_schedule(settings, population).server_updates():
        weights = model.apply(update, {None: total.copy()}, {})
        if update.version:
            expected = expected - total - noise(update)
        np.testing.assert_allclose(weights, expected, rtol=1e-5)
        if update.version == 9:
            break
    # DP-SGD's noise is fresh at every server update, and a sum's is made for updates that weigh 1.
    experiment = load_experiment(tiny(private))
    fresh = make_noise(experiment.settings_of(Run("rounds_fresh", "domain", 0)), 1.5, 200_000)
    summed = experiment.settings_of(Run("buffered_tree", "domain", 0))
    summed = summed.model_copy(update={"algorithm": summed.algorithm.model_copy(update={"normalization": "sum"})})
    in_order = [update for update in make_schedule(settings, population).server_updates() if update.version]
    one, other = fresh(in_order[0]), fresh(in_order[1])
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(200_000)
    assert make_noise(summed, 1.5, 200_000)(in_order[0]).std() == pytest.approx(1.5 * 0.2, rel=0.01)
    # The largest weight is 1/3: one update changes the sum by 0.2 / 3 at most. Single noises, by many parameters.
    many = make_noise(settings, 1.5, 200_000)
    first = next(update for update in make_schedule(settings, population).server_updates() if update.version == 1)
    assert many(first).std() == pytest.approx(1.5 * 0.2 / 3, rel=0.01)


def test_results_tell_what_was_spent_the_same_on_any_ranks(tiny: Callable[..., Path], tmp_path: Path) -> None:
    file = tiny(private)
    for ranks in (1, 3):
        cell = Run(",".join(ALGORITHMS), "domain", 0)
        finished = mpi(ranks, run_command(file, cell, tmp_path / str(ranks)))
        assert finished.returncode == 0, finished.stderr
    for algorithm in ALGORITHMS:
        found = [Run(algorithm, "domain", 0).file(tmp_path / ranks, ".h5") for ranks in ("1", "3")]
        assert numbers(found[0]) == numbers(found[1])
        with open_run(found[0]) as run:
            assert run.attrs["noise_multiplier"] == 1.5
            assert run.attrs["delta"] == 1e-5
            updates = run.sizes["server_update"]
            if algorithm == "rounds_fresh":
                event = PoissonSampledDpEvent(3 / 12, GaussianDpEvent(1.5))
                accountant = RdpAccountant().compose(SelfComposedDpEvent(event, updates))
            else:
                # Of 12 clients, a buffer of 3 with 5 at work, or rounds of 3 that select 4: counted by the schedule.
                steps = _steps(file, algorithm)
                assert sum(steps) == updates
                accountant = RdpAccountant(neighboring_relation=Relation.REPLACE_SPECIAL)
                for count in steps:
                    accountant.compose(SingleEpochTreeAggregationDpEvent(1.5, count))
            assert run.attrs["epsilon"] == pytest.approx(accountant.get_epsilon(1e-5))


def _steps(file: Path, algorithm: str) -> list[int]:
    settings = load_experiment(file).settings_of(Run(algorithm, "domain", 0))
    population = Population(np.array([1, 3, 4, 5, 7, 10, 12, 13, 20, 25, 31, 40]), np.zeros(12, bool))
    steps: dict[int, int] = {}
    for update in make_schedule(settings, population).server_updates():
        if update.version:
            steps[update.tree_step[0]] = steps.get(update.tree_step[0], 0) + 1
    return list(steps.values())


def test_a_wished_epsilon_is_kept_and_not_undercut(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        private(settings)
        for algorithm in settings["algorithms"].values():
            algorithm["privacy"] = {**algorithm["privacy"], "noise_multiplier": None, "epsilon": 8.0}

    from fedhpc.federation.privacy_budget import spent_epsilon

    experiment = load_experiment(tiny(change))
    population = Population(np.ones(12, np.int64), np.zeros(12, bool))
    for algorithm in ALGORITHMS:
        settings = experiment.settings_of(Run(algorithm, "domain", 0))
        steps: dict[int, int] = {}
        for update in make_schedule(settings, population).server_updates():
            if update.version:
                steps[update.tree_step[0]] = update.tree_step[1]
        multiplier = noise_multiplier(settings, population)
        assert spent_epsilon(settings, population, multiplier, steps) == pytest.approx(8.0, rel=1e-3)
        assert spent_epsilon(settings, population, multiplier, steps) <= 8.0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_epsilon_for_no_server_update_is_told(tiny: Callable[..., Path], algorithm: str) -> None:
    def change(settings: dict[str, Any]) -> None:
        private(settings)
        settings["budget"] = {"virtual_seconds": 1e-6}
        one = settings["algorithms"][algorithm]
        settings["algorithms"] = {
            algorithm: {**one, "privacy": {**one["privacy"], "noise_multiplier": None, "epsilon": 8}}
        }

    settings = load_experiment(tiny(change)).settings_of(Run(algorithm, "domain", 0))
    with pytest.raises(ScheduleError, match=r"privacy\.epsilon: the budget ends before the first server update"):
        noise_multiplier(settings, Population(np.ones(12, np.int64), np.zeros(12, bool)))


def test_what_privacy_forbids_is_told_with_the_algorithm(tiny: Callable[..., Path]) -> None:
    from fedhpc.budget import Budget

    experiment = load_experiment(tiny(private))
    population = Population(np.ones(12, np.int64), np.zeros(12, bool))
    for algorithm in experiment.algorithms.values():
        assert algorithm.mistakes(population, Budget(client_updates=60)) == []
    over = experiment.algorithms["rounds_fresh"].model_copy(update={"over_selection": 4})
    (told,) = over.mistakes(population, Budget(client_updates=60))
    assert told.startswith("over_selection: who is fast is aggregated more often than chance has it")
