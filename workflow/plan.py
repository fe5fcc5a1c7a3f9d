"""``fedhpc plan``: what an experiment would run and cost, found out without running it."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from fedhpc.data.paths import DataMissing
from fedhpc.data.preparation import located_task, population_of, prepared_data
from fedhpc.data.settings import DrawnPartition
from fedhpc.experiment import Experiment, Run, RunSettings, TuningRun
from fedhpc.federation.client_time import device_times_of
from fedhpc.federation.deadline import deadline_of
from fedhpc.federation.population import Population
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.schedulers import Algorithm
from fedhpc.federation.updates import ScheduleError, ServerUpdate
from fedhpc.latency.in_words import availability_lines, deadline_line, devices_line
from fedhpc.latency.sampler import capability_of
from fedhpc.latency.scenario import Scenario
from fedhpc.mistakes import ExperimentError
from fedhpc.task import Classification, Learning
from workflow.fitness import fitting, refuse_unfit
from workflow.partition_drawing import draw_partition, refuse_undrawable
from workflow.results_folder import (
    current_choices,
    default_folder,
    digests,
    finished,
    recorded_choices,
    refuse_foreign,
    tuning_runs,
)
from workflow.sites import Site

_SECONDS_TO_PLAY = 5.0
_SAME_IN_TRIALS = ("by_examples", "constant")  # capabilities that nobody draws


@dataclass(frozen=True)
class Cost:
    """What runs of (algorithm, scenario) come to: one trial, of which trial 0 stands for all, or all tuning runs.

    ``virtual_seconds`` are the federation's, ``core_seconds`` those of local training here. ``exact`` is False where
    the schedule was played in part only.
    """

    algorithm: str
    scenario: str
    server_updates: float
    client_updates: float
    local_steps: float
    virtual_seconds: float
    core_seconds: float
    exact: bool


def print_plan(experiment: Experiment, site: Site, console: Console, draw: Path | None = None) -> None:
    """Prints the runs, those that tune among them, how they would share the site, and what each would cost.

    Where each trial has a partition of its own, trial 0's stands for all. ``draw`` is a file for the partition's
    picture. Warns where a data file is still to be fetched. Raises ExperimentError where the data are not as the task
    says, an algorithm cannot work with their clients, or there is nothing to draw or nowhere to draw it.
    """
    if draw is not None:
        try:
            refuse_undrawable(experiment, draw)
        except ExperimentError:
            if (missing := _missing_data(experiment)) is not None:
                _print_missing(missing, console)
            raise
    tuning = sum(1 for _ in tuning_runs(experiment))
    runs = tuning + sum(1 for _ in experiment.runs())
    before = f"{_count(tuning, 'tuning run')}, then " if tuning else ""
    wall = experiment.clock == "wall"
    shared = "" if wall else f", {_count(site.ranks_per_run, 'rank')} each, {site.runs_at_a_time} at a time"
    console.print(
        f"{experiment.name}: {before}{_count(len(experiment.algorithms), 'algorithm')} x "
        f"{_count(len(experiment.scenarios), 'scenario')} x {_count(experiment.trials, 'trial')} = "
        f"{_count(runs - tuning, 'run')}{shared}\n"
        f"results go to {default_folder(experiment)}, unless --output says otherwise",
        highlight=False,
        soft_wrap=True,
    )
    with TemporaryDirectory(prefix="fedhpc-plan-") as scratch:
        try:
            prepared = prepared_data(experiment, Path(scratch))
            for scenario in experiment.scenarios:
                experiment.located(scenario)
        except DataMissing as missing:
            _print_missing(missing, console)
            if draw is not None:
                raise ExperimentError(Path("--draw"), ["without the data there is nothing to draw"]) from None
            return
        if prepared is not None:
            for line in _partition(experiment, prepared, draw):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
        population = population_of(experiment.task, prepared)
        refuse_unfit(experiment, population)
        folder = default_folder(experiment)
        for line in _clients(experiment, population):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        refuse_foreign(folder, experiment, digests(experiment, recorded_choices(folder, experiment)))
        done = len(finished(folder, digests(experiment, current_choices(folder, experiment))))
        if wall:
            _print_silos(experiment, population, fitting(site, experiment, population), console)
            if done:
                console.print(f"{done} of the {runs} are finished there already", highlight=False)
            return
        of_tuning = list(estimate_tuning(experiment, population, prepared, site))
        of_trials = list(estimate(experiment, population, prepared, site))
    if done:
        console.print(f"{done} of the {runs} are finished there already", highlight=False)
    if of_tuning:
        console.print(_table(of_tuning, "tuning: all points of each grid together"))
    console.print(_table(of_trials, f"one run of each ({_count(experiment.trials, 'trial')} in all)"))
    for line in _privacy(experiment, population):
        console.print(line, highlight=False, soft_wrap=True)
    total = sum(cost.core_seconds for cost in of_tuning)
    total += experiment.trials * sum(cost.core_seconds for cost in of_trials)
    if isinstance(experiment.task, Learning):
        cores = site.runs_at_a_time * site.ranks_per_run
        console.print(
            f"Local training takes about {_duration(total)} of core time for all {runs} runs as timed here: "
            f"at best {_duration(total / cores)} on {cores} cores, and some seconds a run to start it."
            f"{' Runs that reach budget.target end earlier.' if experiment.budget.target is not None else ''}",
            highlight=False,
            soft_wrap=True,
        )


def _missing_data(experiment: Experiment) -> DataMissing | None:
    """What is still to be fetched of the task's and the scenarios' files."""
    try:
        if isinstance(experiment.task, Learning):
            located_task(experiment)
        for scenario in experiment.scenarios:
            experiment.located(scenario)
    except DataMissing as missing:
        return missing
    return None


def _print_missing(missing: DataMissing, console: Console) -> None:
    told = f"warning: without the data there is no estimate.\n{missing}"
    console.print(told, markup=False, highlight=False, soft_wrap=True)


def _partition(experiment: Experiment, prepared: Path, draw: Path | None) -> Iterator[str]:
    """What each client got, in a line; and in a picture where one is asked for."""
    from fedhpc.data.description import chosen
    from fedhpc.data.federated import open_prepared
    from fedhpc.data.partition_words import asked, dealt, held_by

    assert isinstance(experiment.task, Learning)
    partition, data = experiment.task.partition, open_prepared(prepared)
    counts = data.class_counts if isinstance(experiment.task, Classification) else None
    told = held_by(np.diff(data.offsets)) if counts is None else dealt(counts)
    own = isinstance(partition, DrawnPartition) and partition.each_trial
    trials = "; every trial has one of its own, and this is trial 0" if own else ""
    yield f"partition {asked(partition)}: {told}{trials}"
    if (stragglers := experiment.task.stragglers) is not None:
        yield f"stragglers: {chosen(data, stragglers)}"
    if draw is not None:
        draw_partition(experiment, data, draw)
        yield f"the partition is drawn in {draw}"


def _print_silos(experiment: Experiment, population: Population, site: Site, console: Console) -> None:
    """What can be said of runs under a clock before they are there."""
    console.print(
        f"clock: wall. A run takes {site.ranks_per_run} ranks, rank 0 and one for each of {len(population)} clients, "
        f"{site.runs_at_a_time} at a time.\n"
        "There is no schedule to play: times and speeds are measured when the silos train. A silo that is silent for "
        f"{experiment.silence:g} s is given up.",
        highlight=False,
        soft_wrap=True,
    )
    if site.warning:
        console.print(site.warning, markup=False, highlight=False, soft_wrap=True)


def _clients(experiment: Experiment, population: Population) -> Iterator[str]:
    """What the devices, the deadline and the availability of scenarios' clients are like, in trial 0; what several have
    in common comes once."""
    told: dict[str, list[str]] = {}
    for name in experiment.scenarios:
        scenario = experiment.located(name)
        if (devices := scenario.devices) is not None:
            clients = {each: experiment.algorithm_in((each, name)).client for each in experiment.algorithms}
            times = {
                each: device_times_of(devices, client, population, experiment.seed, 0)
                for each, client in clients.items()
            }
            told.setdefault(devices_line(devices, times), []).append(name)
        if scenario.straggler_percent is not None:
            deadlines = dict(_deadlines(experiment, scenario, name, population))
            if deadlines:
                line = deadline_line(scenario.straggler_percent, deadlines, len(population))
                if scenario.capability is not None and scenario.capability.distribution not in _SAME_IN_TRIALS:
                    line += "; every trial draws its own capabilities, and this is trial 0"
                told.setdefault(line, []).append(name)
        if scenario.availability is not None:
            for line in availability_lines(scenario.availability, len(population), experiment.seed, 0):
                told.setdefault(line, []).append(name)
    for line, names in told.items():
        yield f"{'scenario' if len(names) == 1 else 'scenarios'} {', '.join(names)}: {line}"


def _deadlines(
    experiment: Experiment, scenario: Scenario, name: str, population: Population
) -> Iterator[tuple[str, tuple[float, int]]]:
    """The algorithms whose clients take epochs: each with the scenario's deadline in trial 0, in virtual seconds, and
    how many clients miss it with all their epochs."""
    assert scenario.capability is not None  # or there would be no straggler_percent
    assert scenario.straggler_percent is not None
    capability = capability_of(scenario.capability, population, experiment.seed, 0)
    capabilities = np.array([capability(client) for client in range(len(population))])
    for each in experiment.algorithms:
        epochs = experiment.algorithm_in((each, name)).client.epochs
        if epochs is not None:
            deadline = deadline_of(epochs, population.examples, capabilities, scenario.straggler_percent)
            late = int(np.count_nonzero(epochs * population.examples / capabilities > deadline))
            yield each, (deadline, late)


def _privacy(experiment: Experiment, population: Population) -> Iterator[str]:
    """What each algorithm that promises privacy adds in noise, and spends."""
    from fedhpc.federation.privacy_budget import planned

    for algorithm in experiment.algorithms:
        for scenario in experiment.scenarios:
            settings = experiment.settings_of(Run(algorithm, scenario, 0))
            privacy = settings.algorithm.privacy
            if privacy is not None:
                multiplier, epsilon = planned(settings, population)
                yield (
                    f"{algorithm}/{scenario}: {privacy.mechanism} with a noise multiplier of {multiplier:.4g} spends "
                    f"epsilon {epsilon:.4g} at delta {privacy.delta:g}"
                )


def estimate(experiment: Experiment, population: Population, prepared: Path | None, site: Site) -> Iterator[Cost]:
    """One row for each algorithm and scenario; an algorithm that is tuned is taken as it is written."""
    per_step: dict[str, float] = {}
    for algorithm in experiment.algorithms:
        for scenario in experiment.scenarios:
            run = Run(algorithm, scenario, 0)
            settings = experiment.settings_of(run)
            kind = _what_a_step_costs(settings.algorithm)
            if kind not in per_step:
                per_step[kind] = _seconds_per_step(experiment, algorithm, settings.algorithm, prepared, site)
            yield _cost(run, settings, population, per_step[kind])


def estimate_tuning(
    experiment: Experiment, population: Population, prepared: Path | None, site: Site
) -> Iterator[Cost]:
    """One row for each algorithm that is tuned and scenario: all of its points together. Of points that differ in
    nothing that costs, one stands for all."""
    per_step: dict[str, float] = {}
    for pair in experiment.pairs():
        alike: dict[str, list[TuningRun]] = {}
        for run in experiment.tuning_runs(pair):
            alike.setdefault(_what_costs(experiment.settings_of(run).algorithm), []).append(run)
        costs = []
        for runs in alike.values():
            settings = experiment.settings_of(runs[0])
            step = _what_a_step_costs(settings.algorithm)
            if step not in per_step:
                per_step[step] = _seconds_per_step(experiment, pair[0], settings.algorithm, prepared, site)
            costs += [_cost(runs[0], settings, population, per_step[step])] * len(runs)
        yield Cost(
            *pair,
            sum(cost.server_updates for cost in costs),
            sum(cost.client_updates for cost in costs),
            sum(cost.local_steps for cost in costs),
            sum(cost.virtual_seconds for cost in costs),
            sum(cost.core_seconds for cost in costs),
            all(cost.exact for cost in costs),
        )


def _what_costs(algorithm: Algorithm) -> str:
    """All of an algorithm but its rates and the like."""
    settings = algorithm.model_dump(mode="json", exclude={"server_optimizer"})
    settings["client"]["optimizer"] = algorithm.client.optimizer.name
    return json.dumps(settings, sort_keys=True)


def _what_a_step_costs(algorithm: Algorithm) -> str:
    """All that one mini-batch's time depends on, so that steps that are alike are timed once."""
    client = algorithm.client.model_dump(mode="json", exclude={"optimizer", "epochs", "steps", "time_limit"})
    client["optimizer"] = algorithm.client.optimizer.name
    client["within_deadline"] = client["within_deadline"] == "coreset"  # others change how many steps there are
    return json.dumps([client, algorithm.updates], sort_keys=True)


def _cost(run: Run, settings: RunSettings, population: Population, per_step: float) -> Cost:
    try:
        last, share = _play(settings, population)
    except ScheduleError as error:
        raise ScheduleError(f"{run.algorithm}/{run.scenario}: {error}") from None
    totals = last.totals
    return Cost(
        *run.pair,
        totals.server_updates / share,
        totals.client_updates / share,
        totals.local_steps / share,
        last.time / share,
        totals.local_steps / share * per_step,
        share == 1.0,
    )


def _play(settings: RunSettings, population: Population) -> tuple[ServerUpdate, float]:
    """The last server update of the schedule, or the last within reach, and the share of the budget that is."""
    until = time.monotonic() + _SECONDS_TO_PLAY
    last = None
    for update in make_schedule(settings, population).server_updates():
        last = update
        share = settings.budget.fraction(update.totals, update.time)
        if time.monotonic() > until and 0 < share < 1:
            return last, share
    assert last is not None  # version 0 is always there
    return last, 1.0


def _seconds_per_step(
    experiment: Experiment, name: str, algorithm: Algorithm, prepared: Path | None, site: Site
) -> float:
    """Core-seconds of one client's mini-batch here; none where nothing is trained."""
    if prepared is None or not isinstance(experiment.task, Learning):
        return 0.0
    from fedhpc.clients.objective import Objective
    from fedhpc.clients.steps.calibration import calibrate
    from fedhpc.clients.steps.candidates import UnfitChoice
    from fedhpc.data.federated import open_prepared

    data = open_prepared(prepared)
    try:
        objective = Objective.of(experiment.task)
        best, *_ = calibrate(experiment.task.model, algorithm.client, data, algorithm.updates, site.step, objective)
    except UnfitChoice as error:
        raise ExperimentError(experiment.file, [f"algorithms.{name}: {error}"]) from None
    return best[1]


def _table(costs: list[Cost], title: str) -> Table:
    from fedhpc.analysis.time_unit import unit_for

    unit = unit_for(max(cost.virtual_seconds for cost in costs))
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    for column in ("algorithm", "scenario"):
        table.add_column(column, no_wrap=True)
    for column in ("client updates", "local steps", "server updates", unit.name, "core time"):
        table.add_column(column, justify="right", no_wrap=True)
    for cost in costs:
        about = "" if cost.exact else "about "
        table.add_row(
            cost.algorithm,
            cost.scenario,
            f"{about}{cost.client_updates:,.0f}",
            f"{about}{cost.local_steps:,.0f}",
            f"{about}{cost.server_updates:,.0f}",
            f"{about}{unit.told(cost.virtual_seconds)}",
            _duration(cost.core_seconds) if cost.core_seconds else "-",
        )
    return table


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
