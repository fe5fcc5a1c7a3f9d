"""``fedhpc plan``: what an experiment would run and cost, found out without running it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from fedhpc.data.paths import DataMissing
from fedhpc.data.preparation import population_of, prepared_data
from fedhpc.experiment import Experiment, Run, RunSettings
from fedhpc.federation.population import Population
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.virtual_server import ServerUpdate
from fedhpc.mistakes import ExperimentError
from fedhpc.task import Classification
from workflow.dag import refuse_unfit
from workflow.results_folder import default_folder, digests, finished, refuse_foreign
from workflow.sites import Site

_SECONDS_TO_PLAY = 5.0


@dataclass(frozen=True)
class Cost:
    """What one run of (algorithm, scenario) comes to; trial 0 stands for all. ``virtual_seconds`` are the federation's,
    ``core_seconds`` those of local training here. ``exact`` is False where the schedule was played in part only."""

    algorithm: str
    scenario: str
    server_updates: float
    client_updates: float
    local_steps: float
    virtual_seconds: float
    core_seconds: float
    exact: bool


def print_plan(experiment: Experiment, site: Site, console: Console) -> None:
    """Prints the runs, how they would share the site, and what each would cost.

    Warns where a data file is still to be fetched. Raises ExperimentError where the data are not as the task says, or
    an algorithm cannot work with their clients.
    """
    runs = sum(1 for _ in experiment.runs())
    console.print(
        f"{experiment.name}: {_count(len(experiment.algorithms), 'algorithm')} x "
        f"{_count(len(experiment.scenarios), 'scenario')} x {_count(experiment.trials, 'trial')} = "
        f"{_count(runs, 'run')}, {_count(site.ranks_per_run, 'rank')} each, {site.runs_at_a_time} at a time\n"
        f"results go to {default_folder(experiment)}, unless --output says otherwise",
        highlight=False,
        soft_wrap=True,
    )
    with TemporaryDirectory(prefix="fedhpc-plan-") as scratch:
        try:
            prepared = prepared_data(experiment, Path(scratch))
        except DataMissing as missing:
            console.print(f"warning: without the data there is no estimate.\n{missing}", markup=False, soft_wrap=True)
            return
        population = population_of(experiment.task, prepared)
        refuse_unfit(experiment, population)
        folder, expected = default_folder(experiment), digests(experiment)
        refuse_foreign(folder, experiment, expected)
        done = len(finished(folder, expected))
        costs = list(estimate(experiment, population, prepared, site))
    if done:
        console.print(f"{done} of the {runs} are finished there already", highlight=False)
    console.print(_table(costs, experiment.trials))
    total = experiment.trials * sum(cost.core_seconds for cost in costs)
    if isinstance(experiment.task, Classification):
        cores = site.runs_at_a_time * site.ranks_per_run
        console.print(
            f"Local training takes about {_duration(total)} of core time for all {runs} runs as timed here: "
            f"at best {_duration(total / cores)} on {cores} cores, and some seconds a run to start it.",
            highlight=False,
            soft_wrap=True,
        )


def estimate(experiment: Experiment, population: Population, prepared: Path | None, site: Site) -> Iterator[Cost]:
    """One row for each algorithm and scenario."""
    for algorithm in experiment.algorithms:
        per_step = _seconds_per_step(experiment, algorithm, prepared, site)
        for scenario in experiment.scenarios:
            settings = experiment.settings_of(Run(algorithm, scenario, 0))
            last, share = _play(settings, population)
            totals = last.totals
            yield Cost(
                algorithm,
                scenario,
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


def _seconds_per_step(experiment: Experiment, algorithm: str, prepared: Path | None, site: Site) -> float:
    """Core-seconds of one client's mini-batch here; none where nothing is trained."""
    if prepared is None or not isinstance(experiment.task, Classification):
        return 0.0
    from fedhpc.clients.steps.calibration import calibrate
    from fedhpc.clients.steps.candidates import UnfitChoice
    from fedhpc.data.federated import open_prepared

    settings = experiment.algorithms[algorithm]
    data = open_prepared(prepared)
    try:
        best, *_ = calibrate(experiment.task.model, settings.client, data, settings.updates, site.step)
    except UnfitChoice as error:
        raise ExperimentError(experiment.file, [f"algorithms.{algorithm}: {error}"]) from None
    return best[1]


def _table(costs: list[Cost], trials: int) -> Table:
    table = Table(
        title=f"one run of each ({_count(trials, 'trial')} in all)", title_justify="left", box=None, padding=(0, 1)
    )
    for column in ("algorithm", "scenario"):
        table.add_column(column, no_wrap=True)
    for column in ("client updates", "local steps", "server updates", "virtual hours", "core time"):
        table.add_column(column, justify="right", no_wrap=True)
    for cost in costs:
        about = "" if cost.exact else "about "
        table.add_row(
            cost.algorithm,
            cost.scenario,
            f"{about}{cost.client_updates:,.0f}",
            f"{about}{cost.local_steps:,.0f}",
            f"{about}{cost.server_updates:,.0f}",
            f"{about}{cost.virtual_seconds / 3600:,.2f}",
            _duration(cost.core_seconds) if cost.core_seconds else "-",
        )
    return table


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
