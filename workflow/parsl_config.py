"""A site as Parsl's configuration: who starts the workers, where, and how many.

One worker starts one run at a time, as an MPI job of its own. HighThroughputExecutor serves all three ways, since
its workers have numbers by which a node's cores and GPUs are divided (``workflow.placement``):

- without a queue, one pool of workers on this machine;
- inside one allocation, a pool on each of its nodes, each a Slurm step of its own, so that a lost node takes
  nothing else with it;
- by blocks, a pilot job for each block, submitted when there is work for it and cancelled when there is none.

Where runs take several nodes, one pool on a job's first node starts them all.
"""

import os
import re
import shlex
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from parsl.addresses import address_by_hostname, address_by_interface
from parsl.config import Config
from parsl.dataflow.errors import PropagatedException
from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
from parsl.jobs.states import JobState
from parsl.launchers.base import Launcher
from parsl.providers import LocalProvider, SlurmProvider
from parsl.providers.base import ExecutionProvider
from parsl.utils import execute_wait

from fedhpc.mistakes import ExperimentError
from workflow.apps import RunInterrupted
from workflow.blocks import Runs, refuse_hopeless_blocks
from workflow.retries import FAILURE, INTERRUPTIONS, cost, in_words
from workflow.sites import Site, Slurm
from workflow.slurm import SlurmError, nodes_of, outside_jobs

_ON_NODE = Path(__file__).resolve().parent.parent / "jobs" / "on_node.sh"
# A block without work is kept as long: what a lost node leaves is known by then, and comes to those that live.
_SECONDS_IDLE = 60.0


def parsl_config(
    site: Site, run_dir: Path, pilots: str = "fedhpc", tell: Callable[[str], None] = lambda line: None
) -> Config:
    """As many workers as there are runs at a time. ``pilots`` names the jobs of blocks, whose scripts and output are
    kept in ``slurm`` beside Parsl's own logs. ``tell`` hears, in words, of each attempt after which a run is tried
    again. The result files say what is done, so that nothing is memoised.

    Raises ExperimentError where the site's network interface is not there.
    """
    most = FAILURE * site.retries + INTERRUPTIONS

    def retried(error: Exception, task: Any) -> int:
        spent = cost(error, site.retries)
        if isinstance(error, RunInterrupted) and error.block is not None:
            executor.hold(error.block)
        if task["fail_cost"] + spent <= most and not isinstance(error, PropagatedException):
            tell(in_words(error, task))
        return spent

    executor = Runs(
        site.slurm.poll_seconds if site.slurm is not None else 0,
        label="runs",
        address=address_of_sweep(site),
        max_workers_per_node=site.runs_in_a_block if site.nodes_per_run > 1 else site.runs_on_a_node,
        # A run's cores are counted by the site; Parsl, which would count the machine's, is not to cap them.
        cores_per_worker=1e-6,
        # A lost worker is noticed after a period, a lost pool or driver after the threshold (seconds).
        heartbeat_period=5,
        heartbeat_threshold=30,
        drain_period=_drain_period(site.slurm),
        launch_cmd=_launch_command(site),
        # The interchange ends with the driver, and what hangs on it after the threshold.
        interchange_launch_cmd=[sys.executable, "-m", "workflow.parent_death", *_module("interchange")],
        block_error_handler=refuse_hopeless_blocks,
        provider=_provider(site, pilots, run_dir.with_name("slurm")),
    )
    return Config(
        executors=[executor],
        retries=most,
        retry_handler=retried,
        run_dir=str(run_dir),
        strategy="htex_auto_scale" if site.slurm is not None and site.slurm.way == "blocks" else "simple",
        strategy_period=0.5,
        max_idletime=_SECONDS_IDLE,
        usage_tracking=0,
        exit_mode="cleanup",
    )


def _provider(site: Site, pilots: str, scripts: Path) -> ExecutionProvider:
    if site.slurm is None:
        return LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1)  # type: ignore[no-untyped-call]
    if site.slurm.way == "blocks":
        return PilotJobs(site, site.slurm, pilots, scripts)
    if site.nodes_per_run > 1:
        return LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1)  # type: ignore[no-untyped-call]
    # Not lost to one step for all nodes: a block that ends with its node is begun again on one that is free.
    nodes = site.runs_in_a_block // site.runs_on_a_node
    return LocalProvider(  # type: ignore[no-untyped-call]
        init_blocks=nodes, min_blocks=nodes, max_blocks=nodes, launcher=PoolStep(1, site.cores_of_a_node)
    )


# What Parsl takes for running or does not know. A job that completes runs nothing more, however long it takes.
_FURTHER_STATES = {
    "CG": JobState.COMPLETED,
    "COMPLETING": JobState.COMPLETED,
    "PR": JobState.TIMEOUT,
    "OOM": JobState.FAILED,
    "BF": JobState.FAILED,
    "DL": JobState.TIMEOUT,
    "S": JobState.HELD,
    "RH": JobState.HELD,
    "RQ": JobState.PENDING,
}


class PoolStep(Launcher):
    """Starts the pools of a job's nodes: one Slurm step, with a pool on each of its ``nodes``."""

    def __init__(self, nodes: int, cores: int) -> None:
        super().__init__(debug=False)
        self._words = [
            "srun",
            f"--nodes={nodes}",
            f"--ntasks={nodes}",
            "--exact",
            f"--cpus-per-task={cores}",
            "--mem=0",
            "--cpu-bind=none",
        ]

    def __call__(self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = "") -> str:
        """The command behind srun."""
        return f"exec {shlex.join(self._words)} {command}"


class PoolOnFirstNode(Launcher):
    """Starts one pool, in the batch script's own place."""

    def __call__(self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = "") -> str:
        """The command as it is."""
        return command


class PilotJobs(SlurmProvider):
    """Pilot jobs as the site asks for them, all of one name, by which a later sweep finds those of a dead one."""

    def __init__(self, site: Site, slurm: Slurm, name: str, scripts: Path) -> None:
        self._scripts = scripts
        spread = site.nodes_per_run > 1
        self._poll_seconds = slurm.poll_seconds
        options = [
            *slurm.job_options,
            f"--job-name={name}",
            f"--cpus-per-task={site.cores_of_a_node}",
            f"--signal=TERM@{slurm.signal_seconds}",
            # Its place is taken by another block; one that came back would find its sweep gone on.
            "--no-requeue",
        ]
        super().__init__(
            # What Parsl multiplies workers with: a pool on each node, or one alone.
            nodes_per_block=1 if spread else slurm.nodes,
            init_blocks=0,
            min_blocks=0,
            max_blocks=slurm.max_blocks,
            exclusive=False,
            # The last of two options that contradict each other counts, and these come after Parsl's own.
            scheduler_options="\n".join(f"#SBATCH {shlex.quote(option)}" for option in options),
            worker_init=site.setup,
            cmd_timeout=60,
            launcher=PoolOnFirstNode() if spread else PoolStep(slurm.nodes, site.cores_of_a_node),
        )
        self._translate_table = {**self._translate_table, **_FURTHER_STATES}
        self._of_the_site = self.scheduler_options
        # The last --exclude counts: the site's own nodes are in fedhpc's.
        self._excluded = re.findall(r"^#SBATCH '?(?:--exclude[= ]|-x ?)([^\s']+)", self._of_the_site, re.MULTILINE)
        self._avoided: set[str] = set()

    def avoid_nodes_of(self, job: str) -> None:
        """Asks for other nodes from now on: Slurm gives the node that has just become free first, broken or not."""
        with suppress(SlurmError):
            self._avoided.update(nodes_of(job))
        if self._avoided:
            exclude = f"#SBATCH --exclude={','.join([*self._excluded, *sorted(self._avoided)])}"
            self.scheduler_options = f"{self._of_the_site}\n{exclude}\n"

    @property
    def script_dir(self) -> str:
        """Where the jobs' scripts and output are."""
        self._scripts.mkdir(parents=True, exist_ok=True)
        return str(self._scripts)

    @script_dir.setter
    def script_dir(self, folder: str | None) -> None:
        """Parsl would have them among its own logs, in a new folder each time."""

    def execute_wait(self, cmd: str, timeout: int | None = None) -> tuple[int, str, str]:
        """A command of Slurm's, told nothing of the job that the sweep itself may run in."""
        inherited = set(outside_jobs(os.environ))
        of_a_job = [word for name in os.environ if name not in inherited for word in ("-u", name)]
        return execute_wait(f"{shlex.join(['env', *of_a_job])} {cmd}", timeout or self.cmd_timeout)

    @property
    def status_polling_interval(self) -> int:
        """Seconds between two looks at the queue."""
        return self._poll_seconds


def address_of_sweep(site: Site) -> str:
    """Where workers find the sweep."""
    slurm = site.slurm
    if slurm is None or (slurm.way == "allocation" and site.runs_in_a_block == site.runs_on_a_node):
        return "127.0.0.1"
    try:
        return address_by_interface(slurm.interface) if slurm.interface else _address_of_this_host()
    except OSError as error:
        told = f"there is no {slurm.interface} here" if slurm.interface else "this host's name has no address"
        raise ExperimentError(
            Path("site"), [f"slurm.interface: {told} ({error}); name the network that compute nodes reach (ip address)"]
        ) from None


def _address_of_this_host() -> str:
    """That of its name, or where the name means the host to itself only, that of its first network."""
    address = address_by_hostname()
    if not address.startswith("127."):
        return address
    of_interfaces = (each for interface in psutil.net_if_addrs().values() for each in interface)
    found = (each.address for each in of_interfaces if each.family == socket.AF_INET)
    return next((each for each in found if not each.startswith("127.")), address)


def _drain_period(slurm: Slurm | None) -> int | None:
    """Seconds after which a block takes no more runs, since it is about to be asked to end."""
    if slurm is None or slurm.way == "allocation":
        return None
    # A block too short for that is used to its end: what it interrupts goes on elsewhere.
    return slurm.seconds_of_work if slurm.seconds_of_work > 0 else None


def _launch_command(site: Site) -> str:
    """Parsl's programs are run by this Python: the scripts on PATH may belong to one that lacks fedhpc. On a cluster's
    nodes it is the site's script that finds it, or the kind that the node needs."""
    pool = shlex.join(_module("process_worker_pool"))
    if site.slurm is not None:
        place = str(site.file) if site.file is not None else "local"
        pool = shlex.join(["bash", str(_ON_NODE), place, *_module("process_worker_pool")])
    command = DEFAULT_LAUNCH_CMD.replace("process_worker_pool.py", pool, 1)
    return command


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"parsl.executors.high_throughput.{name}"]
