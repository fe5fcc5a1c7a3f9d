"""Where the runs of a results folder stand, told from its files alone: while a sweep runs, and after a kill."""

import socket
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedhpc.experiment import Run
from fedhpc.processes import is_alive
from fedhpc.store.lease import live_owner
from fedhpc.store.progress import Progress, read_progress
from workflow.results_folder import (
    current_choices,
    digests,
    finished,
    loss_lines,
    read_experiment,
    slurm_folder,
    tuning_runs,
)
from workflow.slurm import Job, SlurmError, jobs_named, sweep_name
from workflow.tuning import chosen_lines

State = Literal["finished", "running", "failed", "waiting"]

_FRESH_SECONDS = 15.0
_TAIL = 5


@dataclass(frozen=True)
class RunState:
    """One run's state, and its latest progress where it has no result."""

    run: Run
    state: State
    progress: Progress | None = None

    @property
    def percent(self) -> int:
        """How far its training has come."""
        return 100 if self.state == "finished" else int(100 * self.progress.fraction) if self.progress else 0


def run_state(folder: Path, run: Run, now: float) -> RunState:
    """The state of a run that has no result. ``now``: Unix seconds."""
    progress = read_progress(run.file(folder, ".progress.json"))
    if progress is None:
        return RunState(run, "waiting")
    if progress.state == "failed":
        return RunState(run, "failed", progress)
    is_running = progress.state == "running" and _lives(progress, now)
    return RunState(run, "running" if is_running else "waiting", progress)


def run_states(folder: Path) -> list[RunState]:
    """Every run of the folder's experiment, those that tune first.

    Raises ExperimentError where this is no results folder.
    """
    experiment = read_experiment(folder)
    done = set(finished(folder, digests(experiment, current_choices(folder, experiment))))
    now = time.time()
    runs = [*tuning_runs(experiment), *experiment.runs()]
    return [RunState(run, "finished") if run in done else run_state(folder, run, now) for run in runs]


def status_lines(folder: Path) -> list[str]:
    """What ``fedhpc status`` prints."""
    states = run_states(folder)
    owner = live_owner(folder)
    # What a second sweep would be told beyond that is of no use here.
    lines = [summary(states), owner.partition(";")[0] if owner else "no sweep is at work here", *_queue(folder)]
    for state in states:
        if state.state == "running":
            lines.append(f"  running  {state.run}  {state.percent} %")
        elif state.state == "failed" and state.progress is not None:
            lines.append(f"  failed   {state.run}  log: {state.progress.log}")
            lines += [f"             {line}" for line in state.progress.message.splitlines()[-_TAIL:]]
        elif state.state == "waiting" and state.percent:
            lines.append(f"  waiting  {state.run}  interrupted at {state.percent} %")
    experiment = read_experiment(folder)
    lines += [f"  lost     {line}" for line in loss_lines(folder, experiment)]
    return lines + [f"  tuned    {line}" for line in chosen_lines(folder, experiment)]


def _queue(folder: Path) -> list[str]:
    """How the sweep's own jobs stand that were submitted, and what the last of those that ended has left."""
    # Of a job that was submitted by hand it is a link to the person's own file, which may be gone.
    there = (log for log in slurm_folder(folder).glob("sweep-*.log") if log.exists())
    logs = sorted(there, key=lambda log: log.stat().st_mtime)
    if not slurm_folder(folder).exists():
        return []
    try:
        jobs = jobs_named(sweep_name(folder))
    except SlurmError as error:
        return [f"  queue    {error}"]
    lines = [f"  queue    job {job.id}: {job.state.lower()}" + _why(job) for job in jobs]
    return lines if lines or not logs else [f"  queue    nothing; the last job's output: {logs[-1]}"]


def _why(job: Job) -> str:
    return f" ({job.reason})" if job.state == "PENDING" else ""


def summary(states: Iterable[RunState]) -> str:
    """Counts in one line."""
    counts = Counter(state.state for state in states)
    parts = [f"{counts[state]} {state}" for state in ("finished", "running", "failed", "waiting")]
    return f"{sum(counts.values())} runs: {', '.join(parts)}"


def _lives(progress: Progress, now: float) -> bool:
    """Whether the run that wrote this still goes on. On another machine, only fresh news tell."""
    if progress.host == socket.gethostname():
        return is_alive(progress.pid)
    return now - progress.updated_wall < _FRESH_SECONDS
