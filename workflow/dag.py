"""An experiment as a DAG in Parsl: prepare the data once -> runs in parallel -> report.

1. Refuse what cannot work or would mix with other results (law 6); take the lease of the folder (law 7).
2. Runs whose results are there are left out (law 5); the others wait for the data and for nothing else.
3. The report waits until every run has ended, well or not.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from parsl import python_app
from parsl.dataflow.errors import PropagatedException
from parsl.dataflow.futures import AppFuture

from fedhpc.clients.steps.candidates import UnfitChoice, candidates
from fedhpc.clients.steps.choice_file import OtherChoice, choice_file, refuse_other_choice
from fedhpc.clients.steps.step_choice import StepWishes
from fedhpc.data.federated import open_prepared
from fedhpc.data.preparation import population_of, prepared_data
from fedhpc.experiment import Experiment, Run, load_experiment
from fedhpc.federation.population import Population
from fedhpc.mistakes import ExperimentError
from fedhpc.store.lease import take_lease
from fedhpc.task import Classification
from workflow import apps
from workflow.processes import SWEEP, end_processes
from workflow.results_folder import (
    default_folder,
    digests,
    finished,
    forget_failures,
    make_writable,
    refuse_foreign,
    write_experiment,
)
from workflow.sites import Site, load_site


@dataclass(frozen=True)
class Opened:
    """A results folder that is ours, and what there is to do in it. ``digests`` are those of the results to come."""

    folder: Path
    lease: str
    digests: dict[Run, str]
    finished: list[Run]

    @property
    def waiting(self) -> list[Run]:
        """The runs that have no result yet."""
        done = set(self.finished)
        return [run for run in self.digests if run not in done]


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
    a worker's app starts one MPI job of ``site.ranks_per_run`` ranks. The folder's lease is held until the report.

    Raises ExperimentError, with every mistake, before anything starts, and LeaseHeld where a live sweep has the folder.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(Path(experiment))
    site = site or load_site()
    site.launch()
    with ExitStack() as stack:
        opened = stack.enter_context(open_folder(experiment, Path(folder or default_folder(experiment)), site))
        under_way = submit(opened, site)
        held = stack.pop_all()
    under_way.report.add_done_callback(lambda _: held.close())
    return under_way


@contextmanager
def open_folder(experiment: Experiment, folder: Path, site: Site) -> Iterator[Opened]:
    """Makes the results folder ours for the time of the block, with the experiment and its data in it.

    Raises ExperimentError where the experiment cannot be run there, LeaseHeld where a live sweep has the folder.
    """
    expected = digests(experiment)
    folder = folder.resolve()
    make_writable(folder)
    with take_lease(folder) as lease:
        # A killed sweep's processes outlive it; the lease makes them harmless, but they hold cores.
        end_processes({SWEEP: str(folder)})
        refuse_foreign(folder, experiment, expected)
        prepared = prepared_data(experiment, folder)
        population = population_of(experiment.task, prepared)
        refuse_unfit(experiment, population)
        refuse_wishes(experiment, site.step)
        refuse_other_steps(experiment, prepared, folder, site.step)
        write_experiment(experiment, folder)
        yield Opened(folder, lease.token, expected, finished(folder, expected))


def submit(opened: Opened, site: Site) -> Sweep:
    """The DAG, in the loaded DataFlowKernel."""
    folder, lease = opened.folder, opened.lease
    prepare_data, train, report = python_app(apps.prepare_data), python_app(apps.train), python_app(apps.report)
    runs: dict[Run, AppFuture] = {}
    forget_failures(folder, opened.waiting)
    if opened.waiting:
        data = prepare_data(folder, lease)
        runs = {run: train(folder, run, opened.digests[run], site, lease, data) for run in opened.waiting}
    closing = report(folder, lease, inputs=[_ended(future) for future in runs.values()])
    return Sweep(folder, opened.finished, runs, closing)


def failure(future: AppFuture) -> BaseException | None:
    """Why an app that has ended failed, or None: its own error, or that of the data which it waited for in vain."""
    error = future.exception()
    while isinstance(error, PropagatedException) and error.dependent_exceptions_tids:
        error = error.dependent_exceptions_tids[0][0]
    return error


def refuse_unfit(experiment: Experiment, population: Population) -> None:
    """Raises ExperimentError where an algorithm cannot work with these clients."""
    mistakes = [
        f"algorithms.{name}.{mistake}"
        for name, algorithm in experiment.algorithms.items()
        for mistake in algorithm.mistakes(population, experiment.budget)
    ]
    if mistakes:
        raise ExperimentError(experiment.file, mistakes)


def refuse_wishes(experiment: Experiment, wishes: StepWishes) -> None:
    """Raises ExperimentError where an algorithm's steps cannot be computed as the site wishes; whether there is a GPU
    is seen where the runs are, and the model's size decides nothing here."""
    if not isinstance(experiment.task, Classification):
        return
    mistakes = []
    for name, algorithm in experiment.algorithms.items():
        device = wishes.device or ("cuda" if algorithm.client.precision == "tf32" else "cpu")
        try:
            candidates(experiment.task.model, algorithm.client, device, algorithm.updates, 1, wishes)
        except UnfitChoice as error:
            mistakes.append(f"algorithms.{name}: {error}")
    if mistakes:
        raise ExperimentError(experiment.file, mistakes)


def refuse_other_steps(experiment: Experiment, prepared: Path | None, folder: Path, wishes: StepWishes) -> None:
    """Raises ExperimentError where the folder's results were computed in another way than the site wishes."""
    if prepared is None or not isinstance(experiment.task, Classification):
        return
    data, mistakes = open_prepared(prepared), []
    for name, algorithm in experiment.algorithms.items():
        file = choice_file(folder / name, experiment.task.model, algorithm.client, data.shape, data.classes)
        try:
            refuse_other_choice(file, wishes)
        except OtherChoice as error:
            mistakes.append(f"algorithms.{name}: {error}")
    if mistakes:
        raise ExperimentError(experiment.file, mistakes)


def _ended(future: AppFuture) -> "Future[None]":
    """A future that is done when that one is, and never fails: Parsl starts no app whose inputs failed."""
    ended: Future[None] = Future()
    future.add_done_callback(lambda _: ended.set_result(None))
    return ended
