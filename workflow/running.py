"""``fedhpc sweep``: an experiment run on a site from this process, with what a person sees and an exit status."""

import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from types import FrameType

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from rich.console import Console

from fedhpc.experiment import Experiment, Run, TuningRun
from fedhpc.store.lease import LeaseLost
from workflow import apps
from workflow.attempts import in_words, overhead
from workflow.dag import Opened, Sweep, failure, open_folder, submit
from workflow.parsl_config import parsl_config
from workflow.processes import SWEEP, any_run_of, end_processes
from workflow.progress_display import watch
from workflow.results_folder import parsl_folder, refuse_odd_name
from workflow.sites import Site
from workflow.slurm import SlurmError, cancel, jobs_named, output_of, pilot_name, queue_sentence
from workflow.status import run_state

# Parsl has asked its workers to end by then; they end their MPI jobs first.
_PATIENCE_SECONDS = 5.0
# A worker looks after its ranks, and is heard of, so much later.
_SECONDS_TO_HEAR = 5.0


class InterchangeLost(Exception):
    """Parsl's interchange died, through which the sweep spoke to its workers."""


class Stopped(BaseException):
    """A signal asked the sweep to stop; its number is the argument."""


def run_sweep(experiment: Experiment, folder: Path, site: Site, console: Console) -> int:
    """Runs what has no result yet, shows how it goes, and prints the report. Returns 0 where every run is finished,
    1 where one failed, and 128 and the signal's number where it was stopped.

    Raises ExperimentError and LeaseHeld before anything starts.
    """
    site.refuse_elsewhere()
    if site.slurm is not None:
        refuse_odd_name(folder.resolve())
    site.launch()
    try:
        with _stoppable(), open_folder(experiment, folder, site) as opened:
            _link_own_log(opened.folder)
            _announce(opened, console)
            if not opened.waiting:
                _close(opened, {}, apps.report(opened.folder, opened.lease), console)
                return 0
            began = time.time()
            sweep = _run(opened, console)
            failed = {run: error for run, future in sweep.runs.items() if (error := failure(future))}
            error = failure(sweep.report)
            _close(opened, failed, f"There is no report: {error}" if error else sweep.report.result(), console)
            _tell_overhead(opened, sweep, began, console)
            return 1 if failed or error else 0
    except Stopped as stopped:
        console.print(
            "Stopped. Finished runs are kept; the same command goes on with the others from their checkpoints.",
            soft_wrap=True,
        )
        return 128 + int(stopped.args[0])
    except InterchangeLost:
        console.print(
            "Parsl's interchange is gone, and with it the workers. Finished runs are kept; the same command goes on.",
            soft_wrap=True,
        )
        sys.stdout.flush()
        # Parsl's threads wait for an answer that will not come, and would keep this process alive.
        os._exit(1)


def _run(opened: Opened, console: Console) -> Sweep:
    """The sweep, at its end. Nothing of Parsl's is left when it returns."""
    # Parsl's log on a full disk: the runs tell of it in a sentence, and the log need not in a hundred tracebacks.
    logging.raiseExceptions = False
    with _marked_environment(opened.folder):
        try:
            with _plainly_named(parsl_folder(opened.folder)) as run_dir:
                news = SimpleQueue[str]()
                config = parsl_config(opened.site, run_dir, pilot_name(opened.folder), news.put)
                kernel = parsl.load(config)
                _end_interchange_by_force(config)
                under_way: Sweep | None = None
                try:
                    under_way = submit(opened)
                    watch(under_way, console, lambda: _check_interchange(config), news, _queue(opened))
                except InterchangeLost:
                    raise  # Parsl's own clean-up would wait for it for ever
                except Stopped:
                    if under_way is not None:
                        _let_stop(opened, under_way, config, console)
                    kernel.cleanup()
                    raise
                except BaseException:
                    kernel.cleanup()
                    raise
                kernel.cleanup()
                return under_way
        finally:
            with _deaf():
                with suppress(SlurmError):
                    _take_pilots_back(opened)
                end_processes({SWEEP: str(opened.folder)}, _PATIENCE_SECONDS)


def _queue(opened: Opened) -> Callable[[], str] | None:
    """How the sweep's pilot jobs stand, in words; None where it has none."""
    slurm = opened.site.slurm
    if slurm is None or slurm.way == "allocation":
        return None

    def asked() -> str:
        try:
            return queue_sentence(pilot_name(opened.folder))
        except SlurmError as error:
            return str(error)

    return asked


def _let_stop(opened: Opened, under_way: Sweep, config: Config, console: Console) -> None:
    """Gives the runs their time to write what they need to go on; what has not begun is not waited for."""
    console.print("Stopping: the runs write their checkpoints ...", soft_wrap=True)
    config.retries = 0  # what is interrupted now is not to begin again
    with suppress(SlurmError):
        _take_pilots_back(opened, "PENDING")
    try:
        opened.end()
    except (LeaseLost, OSError):
        return  # whatever runs has lost the lease as well, or the folder, and ends by itself
    until = time.monotonic() + apps.STOP_SECONDS + _SECONDS_TO_HEAR
    while time.monotonic() < until and wait(under_way.runs.values(), timeout=0.5).not_done:
        # A pool that died of the signal itself tells of no end; that its runs are gone is seen.
        states = (run_state(opened.folder, run, time.time()).state for run in under_way.runs)
        if "running" not in states and not any_run_of(opened.folder):
            break


def _take_pilots_back(opened: Opened, *states: str) -> None:
    """Cancels the sweep's pilot jobs, or those in these states. Raises SlurmError."""
    if opened.site.slurm is not None and opened.site.slurm.way == "blocks":
        jobs = jobs_named(pilot_name(opened.folder))
        cancel(job.id for job in jobs if not states or job.state in states)


def _link_own_log(folder: Path) -> None:
    """Within a Slurm job, its own output is found beside that of the others."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return
    with suppress(SlurmError, OSError):
        output = output_of(job)
        link = folder / "logs" / "slurm" / f"sweep-{job}.log"
        if output is not None and output.parent != link.parent and output.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(output)


def _announce(opened: Opened, console: Console) -> None:
    runs, waiting = len(opened.runs), len(opened.waiting)
    line = f"{runs} runs, {runs - waiting} of them finished before"
    if begun := sum(run_state(opened.folder, run, time.time()).percent > 0 for run in opened.waiting):
        line += f" and {begun} begun"
    if tuning := sum(isinstance(run, TuningRun) for run in opened.runs):
        line += f"; {tuning} of them tune"
    if waiting:
        ranks = _counted(opened.site.ranks_per_run, "rank")
        line += f"; {opened.site.runs_at_a_time} at a time, {ranks} each{_nodes(opened.site)}"
    console.print(f"{line}. Results: {opened.folder}", markup=False, highlight=False, soft_wrap=True)
    if waiting and opened.site.warning:
        console.print(opened.site.warning, markup=False, highlight=False, soft_wrap=True)


def _tell_overhead(opened: Opened, sweep: Sweep, began: float, console: Console) -> None:
    """What starting and ending runs took. Of pilot jobs only that: their nodes come and go."""
    found = overhead(opened.folder, sweep.runs, began)
    slurm = opened.site.slurm
    if found is not None:
        places = None if slurm is not None and slurm.way == "blocks" else opened.site.runs_at_a_time
        console.print(in_words(found, places, time.time() - began), markup=False, highlight=False, soft_wrap=True)


def _nodes(site: Site) -> str:
    """Where the runs are put, where that is not simply here."""
    slurm = site.slurm
    if slurm is None:
        return ""
    on_a_node = f"{site.nodes_per_run} nodes a run" if site.nodes_per_run > 1 else f"{site.runs_on_a_node} on a node"
    if slurm.way == "allocation":
        return f", {on_a_node} of job {os.environ.get('SLURM_JOB_ID', '?')}"
    jobs = "1 job" if slurm.max_blocks == 1 else f"up to {slurm.max_blocks} jobs"
    return f", {on_a_node}, in {jobs} of {_counted(slurm.nodes, 'node')}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _close(opened: Opened, failed: dict[Run, BaseException], report: str, console: Console) -> None:
    for error in _each_once(failed):
        console.print(error, markup=False, highlight=False, soft_wrap=True)
    console.print(report, markup=False, highlight=False, soft_wrap=True)
    if failed:
        console.print(
            f"{len(failed)} of {len(opened.runs)} runs failed; the same command tries them again.", soft_wrap=True
        )
    console.print(f"Results: {opened.folder}", markup=False, highlight=False, soft_wrap=True)
    if (page := opened.folder / "report" / "index.html").exists():
        console.print(f"The page: {page}", markup=False, highlight=False, soft_wrap=True)


def _each_once(failed: dict[Run, BaseException]) -> Iterator[str]:
    """Every failure in words; what many runs share (data that cannot be prepared) is told once."""
    told = set()
    for run, error in failed.items():
        if isinstance(error, apps.RunFailed) and error.run != run:
            yield f"{run} waited in vain for {error.run}"
        elif isinstance(error, apps.RunFailed):
            tail = "\n".join(f"    {line}" for line in error.tail.splitlines())
            yield f"\n{run} failed: {error.reason}; the last lines of {error.log}:\n{tail}\n"
        elif str(error) not in told:
            told.add(str(error))
            yield f"\n{run} failed: {error}\n"


@contextmanager
def _marked_environment(folder: Path) -> Iterator[None]:
    """Whatever is started within carries the folder's mark."""
    before = os.environ.get(SWEEP)
    os.environ[SWEEP] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWEEP]
        else:
            os.environ[SWEEP] = before


def _check_interchange(config: Config) -> None:
    """Raises InterchangeLost where Parsl's interchange is no longer there."""
    for executor in config.executors:
        assert isinstance(executor, HighThroughputExecutor)
        if executor.interchange_proc is not None and executor.interchange_proc.poll() is not None:
            raise InterchangeLost


def _end_interchange_by_force(config: Config) -> None:
    """Parsl's interchange is deaf to SIGTERM, by which Parsl would end it."""
    for executor in config.executors:
        assert isinstance(executor, HighThroughputExecutor)
        assert executor.interchange_proc is not None
        executor.interchange_proc.terminate = executor.interchange_proc.kill  # type: ignore[method-assign]


@contextmanager
def _plainly_named(folder: Path) -> Iterator[Path]:
    """The folder under a name that no shell takes apart: Parsl hands it to shells without quotes."""
    if shlex.quote(str(folder)) == str(folder):
        yield folder
        return
    with TemporaryDirectory(prefix="fedhpc-parsl-") as temporary:
        folder.mkdir(parents=True, exist_ok=True)
        link = Path(temporary) / "logs"
        link.symlink_to(folder)
        yield link


@contextmanager
def _stoppable() -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM raise Stopped, once."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _deaf() -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM do nothing: what is done here is short, and must be done."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
