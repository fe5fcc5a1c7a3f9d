"""Where a run's ranks are put: which nodes, which cores, which GPUs. No two runs share any of them.

Runs packed on a node divide what the job has there, by the number of the worker that starts them. A run on several
nodes has them alone: the workers of its job, all on the job's first node, claim nodes by names that the kernel takes
back from the dead.
"""

import errno
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflow.sites import Site

_SECONDS_BETWEEN_CLAIMS = 1.0
_GPU_VARIABLES = ("ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class NoRoom(Exception):
    """A node has not what the site says."""


@dataclass(frozen=True)
class Placement:
    """``nodes`` of a Slurm job; empty without a queue. ``cores`` are numbers of this node's, empty where the ranks go
    where the system puts them; ``gpus`` as the driver counts them, empty where a run takes what it sees."""

    nodes: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()

    def mpiexec_options(self) -> list[str]:
        """MPICH's would otherwise ask the surrounding Slurm job to start ranks that belong here."""
        return ["-launcher", "fork", "-hosts", "localhost"] if self.nodes else []

    def srun_options(self, ranks: int, outlives_ranks: bool) -> list[str]:
        """A step within the job, beside those that run there already."""
        if not self.nodes:
            return []
        on_each = ranks // len(self.nodes)
        kill = ["--no-kill", "--kill-on-bad-exit=0"] if outlives_ranks else ["--kill-on-bad-exit=1"]
        return [
            "--overlap",
            f"--nodes={len(self.nodes)}",
            f"--nodelist={','.join(self.nodes)}",
            *([f"--ntasks-per-node={on_each}"] if on_each * len(self.nodes) == ranks else []),
            "--cpu-bind=none",
            *kill,
        ]

    def run_options(self) -> list[str]:
        """What the ranks are told, each of which takes its share."""
        return [
            *(["--cores", ",".join(map(str, self.cores))] if self.cores else []),
            *(["--gpus", ",".join(self.gpus)] if self.gpus else []),
        ]


HERE = Placement()


def share(things: Sequence[object], number: int, each: int, kind: str) -> slice:
    """The ``number``-th part of ``each`` of a node's things. Raises NoRoom where there are too few."""
    if (number + 1) * each > len(things):
        raise NoRoom(
            f"run {number + 1} of this node needs {each} {kind}, and the node has {len(things)} for all; correct the "
            f"site's {kind} or lower its runs_per_node"
        )
    return slice(number * each, (number + 1) * each)


def visible_gpus(environment: Mapping[str, str], otherwise: int) -> tuple[str, ...]:
    """The node's GPUs as the job may use them; ``otherwise`` so many from 0, where nothing says which."""
    for variable in _GPU_VARIABLES:
        if names := environment.get(variable):
            return tuple(name for name in names.split(",") if name)
    return tuple(map(str, range(otherwise)))


def packed(
    number: int, cores_each: int, gpus_each: int, cores: Sequence[int], gpus: Sequence[str], node: str | None
) -> Placement:
    """The placement of the run that a node's worker of this number starts. ``node``: its name, where Slurm has one.

    Raises NoRoom where the node has too few cores or GPUs.
    """
    return Placement(
        (node,) if node else (),
        tuple(cores[share(cores, number, cores_each, "cores")]) if cores_each else (),
        tuple(gpus[share(gpus, number, gpus_each, "gpus")]) if gpus_each else (),
    )


@contextmanager
def placed(site: "Site", look: Callable[[], None]) -> Iterator[Placement]:
    """Where the run that this worker starts goes, for the time of the block. Where it has to wait for that, ``look`` is
    called now and then, and may raise.

    Raises NoRoom where the node, or the job, has not what the site says.
    """
    environment = os.environ
    job = environment.get("SLURM_JOB_ID") if site.slurm is not None else None
    if site.nodes_per_run > 1 and job is not None:
        with claimed(job, site.nodes_per_run, look) as placement:
            yield placement
        return
    each = site.ranks_per_run * site.cores_per_rank
    cores = sorted(os.sched_getaffinity(0))[: site.cores_of_a_node]
    # Outside a queue the cores are not ours alone, and more ranks than cores are no mistake.
    cores_each = each if job is not None and each * site.runs_on_a_node <= len(cores) else 0
    yield packed(
        int(environment.get("PARSL_WORKER_RANK", "0")),
        cores_each,
        site.ranks_per_run * site.gpus_per_rank,
        cores,
        visible_gpus(environment, site.gpus),
        environment.get("SLURMD_NODENAME"),
    )


@contextmanager
def claimed(job: str, wanted: int, look: Callable[[], None]) -> Iterator[Placement]:
    """So many of the job's nodes that are alive, for the time of the block; waits until they are free, and calls
    ``look`` meanwhile, which may raise. Raises NoRoom where too few are alive."""
    with ExitStack() as held:
        while len(nodes := _claim(job, wanted, held)) < wanted:
            held.close()
            look()
            time.sleep(_SECONDS_BETWEEN_CLAIMS)
        yield Placement(nodes=tuple(nodes))


def _claim(job: str, wanted: int, held: ExitStack) -> list[str]:
    """Nodes of the job that nobody has, as many as are wanted or there are; held until ``held`` closes."""
    mine: list[str] = []
    living = living_nodes()
    if len(living) < wanted:
        raise NoRoom(f"a run takes {wanted} nodes, and of job {job} {len(living)} are left; submit again for more")
    for node in living:
        if len(mine) == wanted:
            break
        # A name that the kernel keeps for one process of this host, and forgets with it.
        lock = held.enter_context(socket.socket(socket.AF_UNIX))
        try:
            lock.bind(f"\0fedhpc-{job}-{node}")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        mine.append(node)
    return mine


def has_lost(placement: Placement) -> bool:
    """Whether a run on several nodes has lost one of them, which ends it, and is nobody's fault."""
    return len(placement.nodes) > 1 and not {*placement.nodes} <= {*living_nodes()}


def living_nodes() -> list[str]:
    """The nodes that this Slurm job still has, in Slurm's order."""
    job = os.environ["SLURM_JOB_ID"]
    listed = subprocess.run(["squeue", "--noheader", "--jobs", job, "--format=%N"], capture_output=True, text=True)
    nodes = listed.stdout.strip() or os.environ["SLURM_JOB_NODELIST"]
    named = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True)
    return named.stdout.split()
