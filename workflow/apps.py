"""What a node of the DAG does. Plain functions, to be wrapped in Parsl's python_app by whoever builds a DAG.

They run on workers and import neither torch nor parsl. All work in one results folder, whose ``experiment.yaml`` says
what is run, and all look first whether their sweep still owns that folder (law 7).
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from fedhpc.data.preparation import prepared_data
from fedhpc.experiment import Pair, Run, load_experiment
from fedhpc.interruption import INTERRUPTED, Stop, stoppable
from fedhpc.ranks.world import LOG
from fedhpc.store.lease import LeaseLost, check_lease, is_ending, live_owner
from fedhpc.store.progress import Progress, read_progress, write_progress
from fedhpc.store.run_file import finished_digest
from workflow.attempts import attempted, attempts_file
from workflow.parent_death import end_with_parent_only
from workflow.placement import has_lost, placed
from workflow.processes import RUN, SWEEP, ask_to_end, end_processes
from workflow.results_folder import EXPERIMENT, digests, log_file
from workflow.sites import SiloSite, Site
from workflow.tuning import settle, write_reports

_TAIL = 20
_ORNAMENT = re.compile(
    r"=+$|=\s+(CLEANING UP REMAINING|YOU CAN IGNORE)|This typically refers to a problem|Please see the FAQ"
)
_SECONDS_TO_END = 3.0
_SECONDS_BETWEEN_LOOKS = 2.0
_SECONDS_BETWEEN_SIGNALS = 0.2
STOP_SECONDS = 20.0
"""How long ranks that were asked to stop may take for their checkpoint."""
_LOOKS_TO_END = 3
# File systems over a network may show a file as it was a minute ago.
_PATIENCE_SECONDS = 120.0

_RANK_ENVIRONMENT = {
    # One CPU thread a rank (law 3).
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Memory that a training step frees and asks for again stays with the process (bytes; glibc takes no more for mmap).
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "PYTHONUNBUFFERED": "1",
    # MPICH's mpiexec would otherwise ask a surrounding Slurm job to start ranks that belong here.
    "HYDRA_LAUNCHER": "fork",
}


class RunFailed(Exception):
    """A run's MPI job ended without a result. ``status`` is its exit status, ``tail`` the end of its log."""

    def __init__(self, run: Run, status: int, log: Path, tail: str) -> None:
        # The arguments are those of the constructor, so that the exception survives pickling.
        super().__init__(run, status, log, tail)
        self.run, self.status, self.log, self.tail = run, status, log, tail

    @property
    def reason(self) -> str:
        """How the job ended, in a few words."""
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        return f"exit status {self.status}" if self.status else "ended without a result"

    def __str__(self) -> str:
        return f"{self.run}: {self.reason}; its log is {self.log} and ends with\n{self.tail}"


class RunInterrupted(Exception):
    """A run was asked to stop, with its worker or its sweep. That is no failure: it goes on from its checkpoint when it
    is started again. ``block``: Parsl's number of the workers who are asked to stop too; None where only this run
    is."""

    def __init__(self, run: Run, block: str | None = None) -> None:
        super().__init__(run, block)
        self.run, self.block = run, block

    def __str__(self) -> str:
        return f"{self.run}: interrupted; it goes on from its last checkpoint"


def prepare_data(folder: Path, lease: str, trial: int) -> Path | None:
    """Brings a trial's data into the form that ranks read; at once if they are there already.

    Raises ExperimentError where the data do not fit the experiment.
    """
    check_lease(folder, lease)
    experiment = load_experiment(folder / EXPERIMENT)
    return prepared_data(experiment, folder, trial)


def train(folder: Path, run: Run, digest: str, site: Site, lease: str, prepared: object = None) -> None:
    """Trains one run as an MPI job, from its last checkpoint if there is one. ``digest`` is the finished result's;
    ``prepared`` is there for the DAG's sake: the data's future.

    Raises RunFailed where the job ends without that result, and RunInterrupted where it was asked to stop: by SIGTERM
    to this process or its ranks, or because the sweep is ending.
    """
    if finished_digest(run.file(folder, ".h5")) == digest:
        return
    if is_ending(folder, lease):
        raise RunInterrupted(run)
    if live_owner(folder, _PATIENCE_SECONDS) is None:
        raise LeaseLost(f"{folder}: the sweep that would start {run} is dead")
    marks = {SWEEP: str(folder), RUN: str(run)}
    # An earlier attempt may still run where the worker that started it was lost.
    end_processes(marks)
    log = log_file(folder, run)
    _make_room(log)
    _tell(folder, run, "running", "", log)
    environment = rank_environment(site, marks) | {LOG: str(log)}

    def finished() -> bool:
        return finished_digest(run.file(folder, ".h5")) == digest

    # Where ranks may be lost, the result alone says how a job ended, and a rank that hangs must not keep it alive.
    by_result = isinstance(site, SiloSite)

    def stop_waiting() -> None:
        if is_ending(folder, lease):
            raise RunInterrupted(run)

    with (
        placed(site, stop_waiting) as placement,
        attempted(attempts_file(folder, run), placement, RunInterrupted),
        stoppable(answers=True) as stop,
    ):
        command = [*site.launch(placement), sys.executable, "-m", "workflow", "run", str(folder / EXPERIMENT)]
        command += [*run.options(), "--output", str(folder), "--lease", lease, "--digest", digest]
        command += ["--checkpoint-seconds", str(site.checkpoint_seconds)]
        command += ["--step", json.dumps(site.step.given), *placement.run_options()]
        status = _job(
            command, environment, log, marks, stop, lambda: is_ending(folder, lease), finished if by_result else None
        )
        if not finished() or (status not in (0, INTERRUPTED) and not by_result):
            # Not every launcher passes a rank's exit status on; what rank 0 told last does not depend on it.
            last = read_progress(run.file(folder, ".progress.json"))
            if status == INTERRUPTED or (last is not None and last.state == "interrupted"):
                if last is None or last.state != "interrupted":
                    _tell(folder, run, "interrupted", "", log)
                asked_alone = stop.number is not None and not is_ending(folder, lease)
                raise RunInterrupted(run, _end_own_pool() if asked_alone else None)
            check_lease(folder, lease)
            if has_lost(placement):
                raise RunInterrupted(run)
            failure = RunFailed(run, status, log, _tail(log))
            _tell(folder, run, "failed", f"{failure.reason}\n{failure.tail}", log)
            raise failure


def _end_own_pool() -> str | None:
    """Ends the workers of this node, since Slurm asks for the node: whatever they still began would be lost with it.
    Returns their block's number; None where they are no pool of Slurm's."""
    pool = os.environ.get("FEDHPC_POOL")
    if pool is None:
        return None
    with suppress(ProcessLookupError):
        os.kill(int(pool.split(":")[1]), signal.SIGTERM)  # the script that started it, which waits for other runs' ends
    return os.environ.get("PARSL_WORKER_BLOCK_ID")


def choose(folder: Path, pair: Pair, lease: str, inputs: Sequence[Any] = ()) -> dict[Run, str]:
    """Settles a pair whose points have all been tried, and returns the digests of its trials. ``inputs`` are the
    futures of the points that had still to be tried."""
    check_lease(folder, lease)
    experiment = load_experiment(folder / EXPERIMENT)
    found = digests(experiment, {pair: settle(folder, experiment, pair)})
    return {run: found[run] for run in experiment.trials_of(pair)}


def train_chosen(folder: Path, run: Run, chosen: Mapping[Run, str], site: Site, lease: str, prepared: object) -> None:
    """Trains a trial of a pair that is settled by then: ``chosen`` is what ``choose`` returned."""
    train(folder, run, chosen[run], site, lease, prepared)


def report(folder: Path, lease: str, inputs: Sequence[Any] = ()) -> str:
    """Collects what is finished into the folder's report and returns its text. ``inputs`` are the runs' futures."""
    check_lease(folder, lease)
    return write_reports(folder)


def _make_room(log: Path) -> None:
    """A new attempt's log begins empty; the one before is kept."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        os.replace(log, log.with_name(f"{log.name}.1"))


def rank_environment(site: Site, marks: dict[str, str]) -> dict[str, str]:
    """The environment in which a run's ranks start: this process's, with what the site and fedhpc ask for, and the
    marks that tell whose they are."""
    # Had this worker been started by MPI itself, or by srun on a block's second node, its ranks would take the worker's
    # place in that job for theirs; of a run of one rank nobody would be the one that speaks.
    of_the_worker = ("PMI_", "PMIX_", "SLURM_PROCID")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(of_the_worker)}
    path = os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)])
    return {**inherited, **_RANK_ENVIRONMENT, **site.environment, **marks, "PATH": path}


def _job(
    command: list[str],
    environment: dict[str, str],
    log: Path,
    marks: dict[str, str],
    stop: Stop,
    is_ending: Callable[[], bool],
    finished: Callable[[], bool] | None,
) -> int:
    """The exit status of an MPI job, which never outlives this call: where this process dies or ``is_ending`` raises,
    the job ends too; and where it is ``finished``, some seconds later. Where it ``is_ending``, or this process is asked
    to ``stop``, the ranks are asked to stop, and INTERRUPTED is returned when they have, or have had their time."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,
            preexec_fn=end_with_parent_only,
        )
        try:
            looks_since, next_look = 0, 0.0
            while not _ends_within(process, _SECONDS_BETWEEN_SIGNALS):
                if time.monotonic() >= next_look:
                    next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
                    if is_ending():
                        stop.ask(signal.SIGTERM)
                    looks_since = looks_since + 1 if finished is not None and finished() else 0
                    if looks_since > _LOOKS_TO_END:
                        return 0
                if stop.number is not None:
                    # A launcher hears of it from its ranks: srun would kill them at once.
                    ask_to_end(marks, spared_group=process.pid if command[0] != sys.executable else None)
                    _ends_within(process, STOP_SECONDS)
                    return INTERRUPTED
            return process.returncode
        finally:
            if process.poll() is None:
                process.terminate()
                _ends_within(process, _SECONDS_TO_END)
            if process.poll() != 0:
                end_processes(marks)
                process.wait()


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.poll() is not None


def _tail(log: Path) -> str:
    """The last lines of a log, without those that are empty or that MPICH adds to every death."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 16_384))
        text = file.read().decode(errors="replace")
    return "\n".join([line for line in text.splitlines() if line.strip() and not _ORNAMENT.match(line)][-_TAIL:])


def _tell(folder: Path, run: Run, state: Literal["running", "interrupted", "failed"], message: str, log: Path) -> None:
    """Writes the run's progress for the time when its ranks do not, and leaves what they told last."""
    path = run.file(folder, ".progress.json")
    last = read_progress(path)
    write_progress(
        path,
        Progress(
            state=state,
            fraction=last.fraction if last else 0.0,
            client_updates=last.client_updates if last else 0,
            virtual_seconds=last.virtual_seconds if last else 0.0,
            message=message,
            log=str(log),
            host=socket.gethostname(),
            pid=os.getpid(),
            updated_wall=time.time(),
        ),
    )
