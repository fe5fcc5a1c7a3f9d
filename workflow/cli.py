"""The ``fedhpc`` command. What is heavy is imported inside the commands, so that help comes at once."""

import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workflow.data_command import data_app, resolvable

if TYPE_CHECKING:
    from rich.console import Console

    from fedhpc.analysis.target_table import Target
    from fedhpc.experiment import Experiment, Run

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Sweeps of federated-learning algorithms under straggling clients.",
)

site_app = typer.Typer(no_args_is_help=True, help="What a site is like.")
app.add_typer(site_app, name="site")
app.add_typer(data_app, name="data")

ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="The experiment's YAML file.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", callback=resolvable, help="A results folder.")]
SiteName = Annotated[
    str | None,
    typer.Option("--site", help="A site in configs/sites, or a site file. By default FEDHPC_SITE, else local."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", callback=resolvable, help="Results folder. By default results/<experiment>."),
]


@app.command()
def plan(
    experiment: ExperimentFile,
    site: SiteName = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Also draw who holds how much of what: a .png, .pdf or .svg."),
    ] = None,
) -> None:
    """Check an experiment, and print its runs and their estimated cost."""
    from fedhpc.experiment import load_experiment
    from workflow.plan import print_plan
    from workflow.sites import load_site

    print_plan(load_experiment(experiment), load_site(site), _console(), draw)


@app.command()
def sweep(experiment: ExperimentFile, site: SiteName = None, output: Output = None) -> None:
    """Run every run of an experiment that has no result yet."""
    from fedhpc.experiment import load_experiment
    from fedhpc.mistakes import ExperimentError
    from workflow.results_folder import EXPERIMENT, default_folder
    from workflow.running import run_sweep
    from workflow.sites import load_site

    loaded = load_experiment(experiment)
    folder = output or default_folder(loaded)
    try:
        status = run_sweep(loaded, folder, load_site(site), _console())
    except ExperimentError:
        # Only as a job of the chain, on the files that all of it shares: another sweep is refused for its own mistakes.
        if loaded.file.resolve() == (folder / EXPERIMENT).resolve():
            _end_chain(folder, "A later job would be told the same")
        raise
    if status in (0, 1):
        _end_chain(folder, "The sweep is done")
    raise typer.Exit(status)


def _end_chain(folder: Path, why: str) -> None:
    """Takes back what waits to go on with the sweep. That the queue cannot be asked is told, and no failure."""
    from workflow.slurm import SlurmError
    from workflow.submission import end_chain

    try:
        ended = end_chain(folder)
    except SlurmError as error:
        typer.echo(f"warning: jobs that wait to go on with it, if any, are still in the queue: {error}", err=True)
        return
    if ended:
        typer.echo(f"{why}; taken back from the queue: {', '.join(ended)}")


@app.command()
def run(
    experiment: ExperimentFile,
    algorithm: Annotated[str, typer.Option(help="One of the experiment's algorithms.")],
    scenario: Annotated[str, typer.Option(help="One of its scenarios.")],
    output: Annotated[Path, typer.Option(help="Results folder.")],
    trial: Annotated[int | None, typer.Option(help="One of its trials, from 0.")] = None,
    point: Annotated[
        str | None, typer.Option(help="Instead, a point of the algorithm's grid: client.optimizer.rate=0.1,...")
    ] = None,
    lease: Annotated[str | None, typer.Option(help="The token of the sweep that this run belongs to.")] = None,
    digest: Annotated[str | None, typer.Option(help="By what that sweep knows the result to come.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0.0, help="Seconds between checkpoints.")] = 30.0,
    step: Annotated[str, typer.Option(help="How steps are computed, as a site has it: '{form: plain}'.")] = "{}",
    cores: Annotated[
        str, typer.Option(metavar="N,...", help="Cores of this host, dealt out among the run's ranks on it.")
    ] = "",
    gpus: Annotated[
        str, typer.Option(metavar="N,...", help="GPUs of this host, dealt out among the run's ranks on it.")
    ] = "",
) -> None:
    """Run one run of an experiment: alone, or on many ranks behind mpiexec."""
    from fedhpc.ranks.binding import bind

    # Before anything counts cores or GPUs.
    bind(_cores(cores), _names(gpus))
    from fedhpc.experiment import load_experiment
    from fedhpc.run import run as live
    from workflow.results_folder import make_writable
    from workflow.sites import step_wishes

    loaded = load_experiment(experiment)
    if lease is None:
        make_writable(output.resolve())
    cell = _cell(loaded, algorithm, scenario, trial, point)
    wishes = step_wishes(step)
    computed = live(
        loaded,
        cell,
        output.resolve(),
        lease=lease,
        checkpoint_seconds=checkpoint_seconds,
        step=wishes,
        expected=digest,
    )
    if _speaks():
        typer.echo(f"{cell.file(output, '.h5')} {'is finished' if computed else 'was finished before'}")


@app.command()
def status(folder: Folder) -> None:
    """Say where the runs of a results folder stand; also while a sweep runs."""
    from workflow.status import status_lines

    for line in status_lines(folder.resolve()):
        typer.echo(line)


@app.command()
def report(
    folder: Folder,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="METRIC=VALUE", help="Also what it took to reach it: total_accuracy=0.9, say."
        ),
    ] = None,
) -> None:
    """Print the tables of a results folder and what was tuned; write them there, with figures and a page."""
    from fedhpc.analysis.reaching import NotMeasured
    from fedhpc.mistakes import ExperimentError
    from workflow.results_folder import read_experiment
    from workflow.tuning import write_reports

    read_experiment(folder)  # what is no sweep's folder is told before its target
    wanted = None if target is None else _target(target, folder)
    try:
        typer.echo(write_reports(folder, wanted))
        typer.echo(f"The page: {folder / 'report' / 'index.html'}", err=True)
    except FileNotFoundError as nothing:
        told = f"{str(nothing).removeprefix(f'{folder}: ')}; report/index.html says what is missing"
        raise ExperimentError(folder, [told]) from None
    except NotMeasured as nothing:
        raise ExperimentError(folder, [str(nothing)]) from None


@app.command(context_settings={"allow_extra_args": True})
def bench(
    context: typer.Context,
    file: Annotated[Path, typer.Option("--json", metavar="FILE", help="Where the figures are written.")],
    repeats: Annotated[int, typer.Option(min=1, help="How often each workload is measured.")] = 5,
    workloads: Annotated[
        list[str] | None,
        typer.Option("--workloads", metavar="NAME ...", help="Measure only these. By default all, twenty minutes."),
    ] = None,
    site: SiteName = None,
    small: Annotated[
        bool, typer.Option("--small", hidden=True, help="So little work that figures say nothing.")
    ] = False,
) -> None:
    """Measure fedhpc's speed on this machine, against bare torch loops in the same processes."""
    from workflow.bench.command import run_bench
    from workflow.bench.workloads import FULL, SMALL
    from workflow.sites import load_site

    # An option takes one word; the names that follow the first are left over.
    if context.args and not workloads:
        raise typer.BadParameter(f"unexpected: {' '.join(context.args)}; name workloads after --workloads")
    names = [*(workloads or []), *context.args]
    run_bench(file, names, repeats, SMALL if small else FULL, load_site(site), _console())


@app.command()
def submit(
    experiment: ExperimentFile,
    site: SiteName = None,
    output: Output = None,
    chain: Annotated[
        int, typer.Option("--chain", min=1, help="So many jobs, each to go on where the one before was ended.")
    ] = 1,
) -> None:
    """Hand a sweep to Slurm as the site says, and return."""
    from fedhpc.experiment import load_experiment
    from workflow.results_folder import default_folder
    from workflow.sites import load_site
    from workflow.submission import submit_sweep

    loaded = load_experiment(experiment)
    submit_sweep(loaded, output or default_folder(loaded), load_site(site), chain, _console())


@site_app.command("check")
def site_check(
    site: SiteName = None,
    output: Annotated[
        Path, typer.Option("--output", help="Where results would go; the probe's own folder there is gone afterwards.")
    ] = Path("results"),
    wait: Annotated[float, typer.Option("--wait", min=0.0, help="Seconds that the probe's job may wait.")] = 600.0,
) -> None:
    """Start two ranks as a run's are started, and tell what works there, or what is wrong and its mend."""
    from workflow.site_check import check_site
    from workflow.sites import load_site

    raise typer.Exit(check_site(load_site(site), output, wait, _console()))


def main() -> None:
    """The command. What a person can mend is told in a sentence, with exit status 2; a run that was asked to stop has
    128 and the signal's number."""
    from fedhpc.interruption import Interrupted
    from fedhpc.store.replacing import OF_THE_DISK

    try:
        app(prog_name="fedhpc")
    except Interrupted as interrupted:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it has been heard
        if _speaks():
            print(interrupted, file=sys.stderr)
        sys.exit(interrupted.status)
    except Exception as error:
        of_the_disk = isinstance(error, OSError) and error.errno in OF_THE_DISK
        if not of_the_disk and not isinstance(error, _told_in_words()):
            raise
        if _speaks():
            print(error, file=sys.stderr)
        sys.exit(2)


def _told_in_words() -> tuple[type[Exception], ...]:
    from fedhpc.clients.steps.step_choice import NoDevice
    from fedhpc.federation.checkpoint import OtherStep
    from fedhpc.federation.updates import ScheduleError
    from fedhpc.mistakes import ExperimentError
    from fedhpc.ranks.world import LauncherError
    from fedhpc.store.lease import LeaseHeld, LeaseLost
    from fedhpc.store.replacing import NotWritable
    from workflow.bench.jobs import MeasuringFailed
    from workflow.slurm import SlurmError

    of_runs = LauncherError, LeaseHeld, LeaseLost, NoDevice, NotWritable, OtherStep, ScheduleError
    return ExperimentError, MeasuringFailed, SlurmError, *of_runs


def _cell(experiment: "Experiment", algorithm: str, scenario: str, trial: int | None, point: str | None) -> "Run":
    """The run that is asked for. Raises ExperimentError where the experiment has none such."""
    from fedhpc.experiment import Run
    from fedhpc.mistakes import ExperimentError
    from workflow.results_folder import unknown_name

    mistakes = []
    if algorithm not in experiment.algorithms:
        mistakes.append(unknown_name("--algorithm", algorithm, experiment.algorithms))
    if scenario not in experiment.scenarios:
        mistakes.append(unknown_name("--scenario", scenario, experiment.scenarios))
    if (trial is None) == (point is None):
        mistakes.append("--trial: give either a trial or, for a tuning run, a --point; one of them and not both")
    elif trial is not None and not 0 <= trial < experiment.trials:
        mistakes.append(f"--trial: {trial} is not there; the experiment's trials are 0 to {experiment.trials - 1}")
    elif point is not None and algorithm in experiment.algorithms and point not in experiment.points(algorithm):
        known = experiment.points(algorithm)
        mistakes.append(unknown_name("--point", point, known) if known else f"--point: {algorithm} is not tuned")
    if mistakes:
        raise ExperimentError(experiment.file, mistakes)
    if trial is not None:
        return Run(algorithm, scenario, trial)
    return next(run for run in experiment.tuning_runs((algorithm, scenario)) if run.point == point)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _cores(text: str) -> list[int]:
    from fedhpc.mistakes import ExperimentError

    if not all(name.isascii() and name.isdigit() for name in _names(text)):
        raise ExperimentError(Path("--cores"), [f"{text!r} is no list of numbers; write 0,1, say"])
    return [int(name) for name in _names(text)]


def _target(text: str, folder: Path) -> "Target":
    from typing import cast, get_args

    from fedhpc.analysis.target_table import Target
    from fedhpc.budget import Accuracy
    from fedhpc.mistakes import ExperimentError
    from fedhpc.published import Milestone
    from workflow.results_folder import measured_in, unknown_name

    metric, _, number = text.partition("=")
    if metric not in get_args(Milestone):
        measured = measured_in(folder, get_args(Milestone))
        raise ExperimentError(Path("--target"), [unknown_name("METRIC", metric, measured)])
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ExperimentError(Path("--target"), [f"VALUE: {number!r} is no number; write {metric}=0.9, say"])
    if metric in get_args(Accuracy) and not 0 < value <= 1:
        raise ExperimentError(Path("--target"), [f"VALUE: {number} is no fraction; write {metric}=0.9 for 90 %, say"])
    return Target(cast(Milestone, metric), value)


def _speaks() -> bool:
    """Whether this process is the one of its MPI job that speaks to a person: rank 0 by its launcher's count."""
    from fedhpc.ranks.guard import launched_rank

    return launched_rank() == 0


def _console() -> "Console":
    from workflow.console import console

    return console()
