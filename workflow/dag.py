"""An experiment as a DAG in Parsl: prepare the data -> (tune) -> runs in parallel -> report.

1. Refuse what cannot work or would mix with other results (law 6); take the lease of the folder (law 7).
2. Runs whose results are there are left out (law 5); the others wait for their data and for nothing else. Data are
   prepared once, or once for each trial where each has a partition of its own.
3. Where an algorithm is tuned, its trials in a scenario wait for the choice among that pair's points, and that for the
   pair's tuning runs.
4. The report waits until every run has ended, well or not.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from parsl import python_app
from parsl.dataflow.errors import PropagatedException
from parsl.dataflow.futures import AppFuture

from fedhpc.data.preparation import population_of, prepared_data
from fedhpc.experiment import Experiment, Pair, Run, TuningRun, load_experiment
from fedhpc.store.lease import outlast, take_lease
from fedhpc.task import Task
from workflow import apps
from workflow.fitness import fitting, refuse_other_steps, refuse_unfit, refuse_wishes
from workflow.processes import SWEEP, end_processes
from workflow.results_folder import (
    default_folder,
    digests,
    finished,
    forget_failures,
    make_writable,
    recorded_choices,
    refuse_foreign,
    write_experiment,
)
from workflow.sites import Site, load_site
from workflow.slurm import end_jobs, pilot_name
from workflow.tuning import settled


@dataclass(frozen=True)
class Opened:
    """A results folder that is ours, and what there is to do in it. ``digests`` are those of the results to come, of
    tuning runs and trials; ``unsettled`` are the trials whose settings wait for their pair's tuning; ``end`` asks what
    was started under the lease to stop in order."""

    folder: Path
    lease: str
    end: Callable[[], None]
    task: Task
    digests: dict[Run, str]
    unsettled: dict[Pair, list[Run]]
    finished: list[Run]
    site: Site
    """The site as these runs need it."""

    @property
    def runs(self) -> list[Run]:
        """All of them, done or not."""
        return [*self.digests, *chain.from_iterable(self.unsettled.values())]

    @property
    def waiting(self) -> list[Run]:
        """The runs that have no result yet, as far as that is known."""
        done = set(self.finished)
        return [run for run in self.runs if run not in done]


@dataclass(frozen=True)
class Sweep:
    """A sweep under way. ``runs`` are the futures of those that had no result yet; each raises RunFailed where its run
    failed. ``report`` is the closing report's text, and waits for all of them however they end."""

    folder: Path
    finished: list[Run]
    runs: dict[Run, AppFuture]
    report: AppFuture


def sweep(experiment: Experiment | Path | str, folder: Path | str | None = None, site: Site | None = None) -> Sweep:
    """Adds an experiment's DAG to the DataFlowKernel that is loaded, and returns its futures at once.

    ``folder`` takes the results, by default ``results/<experiment>``; ``site`` says how a run is started, by default
    as ``fedhpc sweep`` would. How many runs go on at a time, and what is retried, is up to the loaded configuration:
    a worker's app starts one MPI job of ``site.ranks_per_run`` ranks, or, under a clock, of one for each
    client and one more. The folder's lease is held until the report.

    Raises ExperimentError, with every mistake, before anything starts, and LeaseHeld where a live sweep has the folder.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(Path(experiment))
    site = site or load_site()
    site.launch()
    with ExitStack() as stack:
        opened = stack.enter_context(open_folder(experiment, Path(folder or default_folder(experiment)), site))
        under_way = submit(opened)
        held = stack.pop_all()
    under_way.report.add_done_callback(lambda _: held.close())
    return under_way


@contextmanager
def open_folder(experiment: Experiment, folder: Path, site: Site) -> Iterator[Opened]:
    """Makes the results folder ours for the time of the block, with the experiment and its data in it.

    Raises ExperimentError where the experiment cannot be run there, LeaseHeld where a live sweep has the folder.
    """
    folder = folder.resolve()
    expected = digests(experiment, recorded_choices(folder, experiment))
    make_writable(folder)
    outlast(folder)
    with take_lease(folder) as lease:
        # A killed sweep's processes outlive it; the lease makes them harmless, but they hold cores.
        end_processes({SWEEP: str(folder)})
        if site.slurm is not None and site.slurm.way == "blocks":
            end_jobs(pilot_name(folder))
        refuse_foreign(folder, experiment, expected)
        prepared = prepared_data(experiment, folder)
        population = population_of(experiment.task, prepared)
        refuse_unfit(experiment, population)
        refuse_wishes(experiment, site.step)
        refuse_other_steps(experiment, prepared, folder, site.step)
        write_experiment(experiment, folder)
        chosen = settled(folder, experiment, expected)
        expected = digests(experiment, chosen)
        unsettled = {pair: experiment.trials_of(pair) for pair in experiment.pairs() if pair not in chosen}
        yield Opened(
            folder,
            lease.token,
            lease.end,
            experiment.task,
            expected,
            unsettled,
            finished(folder, expected),
            fitting(site, experiment, population),
        )


def submit(opened: Opened) -> Sweep:
    """The DAG, in the loaded DataFlowKernel."""
    folder, lease, site = opened.folder, opened.lease, opened.site
    prepare_data, train, report = python_app(apps.prepare_data), python_app(apps.train), python_app(apps.report)
    choose, train_chosen = python_app(apps.choose), python_app(apps.train_chosen)
    runs: dict[Run, AppFuture] = {}
    forget_failures(folder, opened.waiting)
    if opened.waiting:
        drawn_by = {run: opened.task.data_trial(run.trial) for run in opened.waiting}
        data = {trial: prepare_data(folder, lease, trial) for trial in dict.fromkeys(drawn_by.values())}
        known = [run for run in opened.waiting if run in opened.digests]
        runs = {run: train(folder, run, opened.digests[run], site, lease, data[drawn_by[run]]) for run in known}
        for pair, trials in opened.unsettled.items():
            points = [runs[run] for run in known if isinstance(run, TuningRun) and run.pair == pair]
            chosen = choose(folder, pair, lease, inputs=points)
            runs |= {run: train_chosen(folder, run, chosen, site, lease, data[drawn_by[run]]) for run in trials}
    closing = report(folder, lease, inputs=[_ended(future) for future in runs.values()])
    return Sweep(folder, opened.finished, runs, closing)


def failure(future: AppFuture) -> BaseException | None:
    """Why an app that has ended failed, or None: its own error, or that of the data or the tuning run which it waited
    for in vain."""
    error = future.exception()
    while isinstance(error, PropagatedException) and error.dependent_exceptions_tids:
        error = error.dependent_exceptions_tids[0][0]
    return error


def _ended(future: AppFuture) -> "Future[None]":
    """A future that is done when that one is, and never fails: Parsl starts no app whose inputs failed."""
    ended: Future[None] = Future()
    future.add_done_callback(lambda _: ended.set_result(None))
    return ended
