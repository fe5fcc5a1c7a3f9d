"""``fedhpc sweep``: an experiment run on a site from this process, with what a person sees and an exit status."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from rich.console import Console

from fedhpc.experiment import Experiment, Run, TuningRun
from workflow import apps
from workflow.dag import Opened, Sweep, failure, open_folder, submit
from workflow.processes import SWEEP, end_processes
from workflow.progress_display import watch
from workflow.results_folder import parsl_folder
from workflow.sites import Site, parsl_config

# Parsl has asked its workers to end by then; they end their MPI jobs first.
_PATIENCE_SECONDS = 5.0


class InterchangeLost(Exception):
    """Parsl's interchange died, through which the sweep spoke to its workers."""


class Stopped(BaseException):
    """A signal asked the sweep to stop; its number is the argument."""


def run_sweep(experiment: Experiment, folder: Path, site: Site, console: Console) -> int:
    """Runs what has no result yet, shows how it goes, and prints the report. Returns 0 where every run is finished,
    1 where one failed, and 128 and the signal's number where it was stopped.

    Raises ExperimentError and LeaseHeld before anything starts.
    """
    site.launch()
    try:
        with _stoppable(), open_folder(experiment, folder, site) as opened:
            _announce(opened, console)
            if not opened.waiting:
                _close(opened, {}, apps.report(opened.folder, opened.lease), console)
                return 0
            sweep = _run(opened, console)
            failed = {run: error for run, future in sweep.runs.items() if (error := failure(future))}
            error = failure(sweep.report)
            _close(opened, failed, f"There is no report: {error}" if error else sweep.report.result(), console)
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
    with _marked_environment(opened.folder):
        try:
            with _plainly_named(parsl_folder(opened.folder)) as run_dir:
                config = parsl_config(opened.site, run_dir)
                kernel = parsl.load(config)
                try:
                    under_way = submit(opened)
                    watch(under_way, console, lambda: _check_interchange(config))
                except InterchangeLost:
                    raise  # Parsl's own clean-up would wait for it for ever
                except BaseException:
                    kernel.cleanup()
                    raise
                kernel.cleanup()
                return under_way
        finally:
            with _deaf():
                end_processes({SWEEP: str(opened.folder)}, _PATIENCE_SECONDS)


def _announce(opened: Opened, console: Console) -> None:
    runs, waiting = len(opened.runs), len(opened.waiting)
    line = f"{runs} runs, {runs - waiting} of them finished before"
    if tuning := sum(isinstance(run, TuningRun) for run in opened.runs):
        line += f"; {tuning} of them tune"
    if waiting:
        line += f"; {opened.site.runs_at_a_time} at a time, {opened.site.ranks_per_run} ranks each"
    console.print(f"{line}. Results: {opened.folder}", markup=False, highlight=False, soft_wrap=True)
    if waiting and opened.site.warning:
        console.print(opened.site.warning, markup=False, highlight=False, soft_wrap=True)


def _close(opened: Opened, failed: dict[Run, BaseException], report: str, console: Console) -> None:
    for error in _each_once(failed):
        console.print(error, markup=False, highlight=False, soft_wrap=True)
    console.print(report, markup=False, highlight=False, soft_wrap=True)
    if failed:
        console.print(
            f"{len(failed)} of {len(opened.runs)} runs failed; the same command tries them again.", soft_wrap=True
        )
    console.print(f"Results: {opened.folder}", markup=False, highlight=False, soft_wrap=True)


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
