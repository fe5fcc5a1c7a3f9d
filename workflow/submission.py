"""``fedhpc submit``: a sweep handed to Slurm, once or as a chain of jobs that each go on where the last one was.

A chain is for queues with short limits: job k starts when job k-1 has ended, however that was, and the job that comes
to the sweep's end takes back those that still wait. All carry the folder's name, by which they are found.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from fedhpc.experiment import Experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.store.lease import live_owner
from fedhpc.store.replacing import replacing
from workflow.results_folder import (
    EXPERIMENT,
    digests,
    finished,
    make_writable,
    recorded_choices,
    refuse_foreign,
    refuse_odd_name,
    slurm_folder,
    write_experiment,
)
from workflow.sites import Site, Slurm
from workflow.slurm import SlurmError, cancel, jobs_named, refusal, sbatch, sweep_name

HOME = Path(__file__).resolve().parent.parent
"""The repository, whose jobs are submitted."""


_NO_SUCH_NODE = "node configuration is not available"


def submit_sweep(experiment: Experiment, folder: Path, site: Site, chain: int, console: Console) -> list[str]:
    """Submits ``chain`` jobs for the sweep, one after the other, tells how to follow them, and returns their numbers.

    Raises ExperimentError before anything is submitted where the site has no queue, the experiment cannot be run in
    the folder, or a sweep of it is in the queue or at work; SlurmError where Slurm refuses, and then nothing of the
    chain is left in the queue.
    """
    folder = folder.resolve()
    if site.slurm is None:
        raise ExperimentError(
            Path("site"),
            ["slurm: missing, so that there is no queue to submit to; give --site one that has it, or sweep here"],
        )
    refuse_odd_name(folder)
    choices = recorded_choices(folder, experiment)
    expected = digests(experiment, choices)
    make_writable(folder)
    refuse_foreign(folder, experiment, expected)
    _refuse_a_second(folder)
    if len(finished(folder, expected)) == len(expected) and len(choices) == len(list(experiment.pairs())):
        console.print(f"All {len(expected)} runs are finished. Results: {folder}", markup=False, soft_wrap=True)
        return []
    _refuse_what_slurm_would(site, site.slurm, console)
    # What is in the queue is what was submitted: the files that it came from may be edited meanwhile.
    write_experiment(experiment, folder)
    own_site = _keep(site, folder)
    logs = slurm_folder(folder)
    logs.mkdir(parents=True, exist_ok=True)
    # Of two options that contradict each other the last counts: by this name and output the sweep is found.
    words = [
        *job_options(site, site.slurm),
        f"--job-name={sweep_name(folder)}",
        f"--chdir={HOME}",
        f"--output={str(logs).replace('%', '%%')}/sweep-%j.log",
    ]
    arguments = [str(HOME / "jobs" / "sweep.sh"), str(folder / EXPERIMENT), "--output", str(folder)]
    arguments += ["--site", str(own_site)]
    submitted: list[str] = []
    for _ in range(chain):
        after = [f"--dependency=afterany:{submitted[-1]}"] if submitted else []
        try:
            submitted.append(sbatch([*words, *after, *arguments], python_in_use()))
        except SlurmError as refused:
            cancel(submitted)
            raise SlurmError(f"{refused}\nsbatch was given {shlex.join([*words, *after])}") from None
    for line in _followed(submitted, folder, sweep_name(folder)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return submitted


def _refuse_what_slurm_would(site: Site, slurm: Slurm, console: Console) -> None:
    """Raises SlurmError, in Slurm's words, where it would not take a job of the sweep's, or of those that give it
    nodes. That no node is like that is a warning: Slurm says the same of nodes that are down just now."""
    wrapped = ["--wrap=true"]
    asked = {"the sweep's job": job_options(site, slurm)}
    if slurm.way == "blocks":
        asked["a block"] = node_options(site, slurm)
    for what, options in asked.items():
        told = refusal([*options, *wrapped])
        if told is not None and _NO_SUCH_NODE in told:
            line = f"warning: Slurm says of {what}: {told}; unless nodes are down just now, correct the site's cores"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif told is not None:
            raise SlurmError(f"Slurm would not take {what}: {told}\nsbatch was asked about {shlex.join(options)}")


def _keep(site: Site, folder: Path) -> Path:
    """A copy of the site's file in the results folder."""
    assert site.file is not None
    own = folder / "site.yaml"
    if own != site.file:
        with replacing(own) as temporary:
            shutil.copyfile(site.file, temporary)
    return own


def job_options(site: Site, slurm: Slurm) -> list[str]:
    """What sbatch is told of the job in which a sweep runs: the nodes of its allocation, or, where it fetches its
    nodes by blocks, a place for itself. What the site says comes last and so counts."""
    for_itself = ["--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", *slurm.queue_options]
    asked = for_itself if slurm.way == "blocks" else node_options(site, slurm)
    return [f"--signal=B:TERM@{slurm.signal_seconds}", "--requeue", "--no-kill", *asked]


def node_options(site: Site, slurm: Slurm) -> list[str]:
    """What sbatch is told of a job whose nodes runs are to fill."""
    cores = [f"--cpus-per-task={site.cores}"] if site.cores is not None else ["--cpus-per-task=1", "--exclusive"]
    return ["--ntasks-per-node=1", *cores, *slurm.job_options]


def python_in_use() -> dict[str, str]:
    """The variables by which a job takes this Python as it is; none where it is the repository's own environment,
    which the job finds, for its kind of node, by itself."""
    own = Path(sys.prefix).parent == HOME and Path(sys.prefix).name.startswith(".venv")
    if own or sys.prefix == os.environ.get("FEDHPC_VENV") or "FEDHPC_ENVIRONMENT" in os.environ:
        return {}
    return {"FEDHPC_ENVIRONMENT": "none", "FEDHPC_PYTHON": sys.executable}


def end_chain(folder: Path) -> list[str]:
    """Takes back the jobs that wait to go on with a folder's sweep, which is done; returns their numbers. For a sweep
    within a job: outside of one it does nothing. Raises SlurmError."""
    if "SLURM_JOB_ID" not in os.environ:
        return []
    waiting = [job.id for job in jobs_named(sweep_name(folder)) if job.state == "PENDING"]
    cancel(waiting)
    return waiting


def _refuse_a_second(folder: Path) -> None:
    name = sweep_name(folder)
    if there := [job.id for job in jobs_named(name)]:
        raise ExperimentError(
            folder,
            [f"a sweep of it is in the queue already: {', '.join(there)}; 'scancel --name={name}' takes it back"],
        )
    if owner := live_owner(folder):
        raise ExperimentError(folder, [owner])


def _followed(submitted: list[str], folder: Path, name: str) -> Iterator[str]:
    jobs = f"job {submitted[0]}" if len(submitted) == 1 else f"{len(submitted)} jobs, one after the other:"
    yield f"Submitted {jobs}{'' if len(submitted) == 1 else ' ' + ', '.join(submitted)}. Results: {folder}"
    yield f"  in the queue:  squeue --name={name}"
    yield f"  the runs:      fedhpc status {shlex.quote(str(folder))}"
    for job in submitted:
        yield f"  its output:    tail -F {shlex.quote(str(slurm_folder(folder) / f'sweep-{job}.log'))}"
    yield f"  to stop:       scancel --name={name}"
