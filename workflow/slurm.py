"""What is asked of Slurm, by its own commands: jobs submitted, looked for, and taken back.

A sweep's jobs are known by their names, which its results folder gives: whoever takes the folder over finds what is
left of the sweep before.
"""

import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TRIES = 3
_SECONDS_BETWEEN_TRIES = 2.0
_SECONDS_TO_ANSWER = 120.0
_SECONDS_TO_END = 30.0
_KEPT_OF_SLURM = ("SLURM_CONF", "SLURM_CLUSTERS")


class SlurmError(Exception):
    """Slurm refused, did not answer, or is not there; told in words."""


@dataclass(frozen=True)
class Job:
    """A job in the queue. ``state``: PENDING, RUNNING, COMPLETING and so on; ``reason``: why it waits, in Slurm's
    word; ``nodes``: those that it has, as Slurm abbreviates them, or nothing."""

    id: str
    state: str
    reason: str
    nodes: str


def pilot_name(folder: Path) -> str:
    """The name of all jobs that give a results folder's sweep its nodes."""
    return f"fedhpc-{_digits(folder)}"


def sweep_name(folder: Path) -> str:
    """The name of the jobs in which the sweep of a results folder itself runs."""
    return f"fedhpc-sweep-{_digits(folder)}"


def sbatch(words: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Submits a job with these options, script and arguments, and returns its number. It inherits this process's
    environment and these ``variables``.

    Raises SlurmError with sbatch's own words.
    """
    # Asked once: where the answer is lost, the job may be there all the same.
    answer = _asked(["sbatch", "--parsable", *words], variables=variables)
    numbers = [line.partition(";")[0] for line in answer.splitlines() if line.partition(";")[0].isdigit()]
    if not numbers:
        raise SlurmError(f"sbatch gave no job's number but {answer.strip()!r}; is one of the site's options no job's?")
    return numbers[-1]


def refusal(words: Sequence[str]) -> str | None:
    """What Slurm has against a job with these options; None where it would take it. Nothing is submitted.

    Raises SlurmError where there is no Slurm to ask.
    """
    done = _run(["sbatch", "--test-only", *words])
    return None if done.returncode == 0 else _complaint(done)


def jobs_named(name: str) -> list[Job]:
    """This user's jobs of that name which have not ended. Raises SlurmError."""
    return _queued([f"--user={os.getuid()}", f"--name={name}"])


def job(number: str) -> Job | None:
    """The job while it is in the queue; None once it has ended. Raises SlurmError."""
    return next(iter(_queued([f"--jobs={number}"])), None)


def output_of(number: str) -> Path | None:
    """The file that a job's output goes to; None where that is not known. Raises SlurmError."""
    found = _shown(number, "StdOut")
    return Path(found) if found else None


def nodes_of(number: str) -> list[str]:
    """The nodes that a job has, or had; none where that is not known. Raises SlurmError."""
    found = _shown(number, "NodeList")
    named = _asked(["scontrol", "show", "hostnames", found], tries=_TRIES) if found not in (None, "(null)") else ""
    return named.split()


def _shown(number: str, what: str) -> str | None:
    text = _asked(["scontrol", "show", "job", number], tries=_TRIES)
    found = re.search(rf"^\s*{what}=(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else None


def cancel(numbers: Iterable[str], *options: str) -> None:
    """Takes jobs back, whether they wait or run; those that have ended are no mistake. Raises SlurmError."""
    if numbers := list(numbers):
        _asked(["scancel", "--quiet", *options, *numbers], tries=_TRIES)


def queue_sentence(name: str) -> str:
    """How this user's jobs of that name stand: "2 jobs run, 1 waits (Priority)". Raises SlurmError."""
    jobs = jobs_named(name)
    waiting = [job for job in jobs if job.state == "PENDING"]
    running = sum(job.state == "RUNNING" for job in jobs)
    parts = [f"{running} jobs run" if running != 1 else "1 job runs"]
    if waiting:
        reasons = ", ".join(dict.fromkeys(job.reason for job in waiting))
        parts.append(f"{len(waiting)} {'wait' if len(waiting) > 1 else 'waits'} ({reasons})")
    return ", ".join(parts)


def end_jobs(name: str) -> None:
    """Cancels this user's jobs of that name and returns when they are gone, or after half a minute; what still runs in
    them by then looks at its lease. Raises SlurmError."""
    until = time.monotonic() + _SECONDS_TO_END
    cancelled: set[str] = set()
    while (found := jobs_named(name)) and time.monotonic() < until:
        cancel({job.id for job in found} - cancelled)
        cancelled |= {job.id for job in found}
        time.sleep(_SECONDS_BETWEEN_TRIES)


def outside_jobs(outer: Mapping[str, str]) -> dict[str, str]:
    """What a new job may inherit of this process. Of a job around it nothing: its counts of tasks, cores and memory
    would be taken for the new job's own where that has none, and mpiexec and srun would obey them."""
    of_a_job = ("SLURM_", "SLURMD_", "PMI_", "PMIX_", "PARSL_")
    return {name: value for name, value in outer.items() if name in _KEPT_OF_SLURM or not name.startswith(of_a_job)}


def _queued(options: Sequence[str]) -> list[Job]:
    lines = _asked(["squeue", "--noheader", "--format=%i|%T|%N|%r", *options], tries=_TRIES).splitlines()
    # What a cluster's own squeue adds for people has no such parts.
    found = (line.strip().split("|", 3) for line in lines if line.count("|") >= 3)
    return [Job(number, state, reason, nodes) for number, state, nodes, reason in found]


def _asked(command: Sequence[str], tries: int = 1, variables: Mapping[str, str] | None = None) -> str:
    for remaining in reversed(range(tries)):
        done = _run(command, variables)
        # A job that has left Slurm's memory has ended; so says the answer with nothing in it.
        if done.returncode == 0 or "Invalid job id" in done.stderr:
            return done.stdout
        if remaining:
            time.sleep(_SECONDS_BETWEEN_TRIES)
    raise SlurmError(f"{command[0]}: {_complaint(done)}")


def _run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**outside_jobs(os.environ), **(variables or {})}
    try:
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_SECONDS_TO_ANSWER)
    except FileNotFoundError:
        raise SlurmError(
            f"there is no {command[0]} on PATH: this machine has no Slurm, or its module is not loaded; use a site "
            "without a slurm block, or log in where jobs are submitted"
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]}: no answer within {_SECONDS_TO_ANSWER:.0f} s") from None


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Slurm's own words, without the command's name before each line."""
    lines = [line.partition("error: ")[2] or line for line in done.stderr.splitlines()]
    told = dict.fromkeys(line.strip().removeprefix("Batch job submission failed: ") for line in lines)
    return "; ".join(filter(None, told)) or f"exit status {done.returncode}"


def _digits(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12]
