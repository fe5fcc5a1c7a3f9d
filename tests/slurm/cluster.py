"""A real Slurm of one's own on this machine: munged, slurmctld and one slurmd a node, of Debian's or Ubuntu's packages.

Nothing of it is shared with another Slurm here: its ports are free ones, everything else is in a temporary folder, and
whatever belongs to it has its SLURM_CONF in the environment. Should the process that started it die, all of it ends.
"""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.workflow.experiments import wait_until
from workflow.processes import end_processes

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
PACKAGES = "apt-get install --no-install-recommends slurm-wlm munge"

_CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job's credential may be renewed only after the last one expired (seconds; 120 otherwise).
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/%n
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
# A node that was lost is used again as soon as it is there again.
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,batch_sched_delay=0,sched_min_interval=0
PriorityType=priority/basic
SlurmctldTimeout=10
SlurmdTimeout={lost_after}
KillWait={kill_wait}
MinJobAge=3600
MessageTimeout=10
TCPTimeout=2
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
CommunicationParameters=NoAddrCache
DebugFlags=NO_CONF_HASH
"""
_NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Boards=1 SocketsPerBoard=1 "
    "CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=4000 Gres=gpu:{gpus} State=UNKNOWN\n"
)
_PARTITION = "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO\n"

_ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL")


def missing() -> str:
    """Why a Slurm cannot be started here, in words; nothing where it can."""
    if not sys.platform.startswith("linux"):
        return "a real Slurm runs on Linux only"
    if os.geteuid() != 0:
        return "a real Slurm with nodes of its own is started by root only"
    path = _path(os.environ)
    if absent := [name for name in PROGRAMS if shutil.which(name, path=path) is None]:
        return f"there is no {' and no '.join(absent)}; install Slurm ('{PACKAGES}' on Debian and Ubuntu)"
    with tempfile.TemporaryDirectory() as folder:
        try:
            _make_device(Path(folder) / "gpu0")
        except OSError as error:
            return f"the nodes' GPUs are character devices, and mknod says: {error}; allow CAP_MKNOD"
    return ""


class Cluster:
    """Nodes ``n1`` to ``n<nodes>`` of so many CPUs and (fake) GPUs each; up within the block of a ``with``."""

    kill_wait = 30
    """Seconds between a job's SIGTERM and its SIGKILL."""
    lost_after = 10
    """Seconds without a word after which Slurm begins to doubt a node (it is down after about three times as many)."""

    def __init__(self, nodes: int = 4, cpus: int = 2, gpus: int = 2) -> None:
        self.nodes = tuple(f"n{number + 1}" for number in range(nodes))
        self.cpus, self.gpus = cpus, gpus
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        # A short name: the paths of Unix sockets end after 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="fedhpc-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.configuration = self.folder / "slurm.conf"
        # Its end of the pipe closes when this process dies in whatever way, or leaves the block.
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "tests.slurm.cluster", str(self.folder)],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
        try:
            self._configure()
            self._start("munged", "munged", *self._munged())
            wait_until((self.folder / "munge.sock").exists, 20)
            self._start("slurmctld", "slurmctld", "-D", "-i", "-f", self.configuration)
            for node in self.nodes:
                self.restore_node(node)
            wait_until(lambda: all(self.node_state(node) == "IDLE" for node in self.nodes), 60, self._logs)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        for daemon in self._daemons.values():
            daemon.wait()

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment, without any other Slurm's traces, in which Slurm's commands speak to this one."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH_", "SRUN_"))}
        return {**kept, "PATH": _path(kept), "SLURM_CONF": str(self.configuration)}

    def run(
        self,
        words: Sequence[object],
        *,
        check: bool = True,
        timeout: float = 120,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A command, to its end, with these variables besides. Raises AssertionError with what it said where it fails
        and ``check`` is left on."""
        variables = self.environment | dict(environment or {})
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=timeout, env=variables)
        assert not check or done.returncode == 0, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done

    def sbatch(self, *words: object, environment: Mapping[str, str] | None = None) -> int:
        """Submits a job, and returns its number."""
        return int(self.run(["sbatch", "--parsable", *words], environment=environment).stdout.split(";")[0])

    def state(self, job: int) -> str:
        """A job's state, in Slurm's word: PENDING, RUNNING, COMPLETED, ..."""
        return self._asked_of_job(job, "%T")

    def reason(self, job: int) -> str:
        """Why a job waits, in Slurm's word."""
        return self._asked_of_job(job, "%r")

    def nodes_of(self, job: int) -> tuple[str, ...]:
        """The nodes that a job has or had."""
        return tuple(self.run(["scontrol", "show", "hostnames", self._asked_of_job(job, "%N")]).stdout.split())

    def wait_for_job(self, job: int, *states: str, seconds: float = 120) -> str:
        """The job's state, once it is one of these; by default, once it has ended."""
        wanted = states or _ENDED
        return wait_until(
            lambda: state if (state := self.state(job)) in wanted else "",
            seconds,
            lambda: f"job {job} is {self.state(job)} ({self.reason(job)})\n{self._logs()}",
        )

    def about(self, job: int) -> str:
        """What Slurm knows of a job, and said last, for whoever looks into a failure."""
        return self.run(["scontrol", "show", "job", job], check=False).stdout + self._logs()

    def jobs(self, name: str = "", states: Sequence[str] = ("PENDING", "RUNNING", "SUSPENDED")) -> list[int]:
        """The jobs in these states, oldest first; of this name, where one is given."""
        words = ["squeue", "--noheader", f"--states={','.join(states)}", "--format=%A", "--sort=i"]
        return list(map(int, self.run([*words, *([f"--name={name}"] if name else [])]).stdout.split()))

    def cancel(self, *words: object) -> None:
        self.run(["scancel", *words])

    def hold(self, job: int) -> None:
        """A waiting job waits on until it is released."""
        self.run(["scontrol", "hold", job])

    def release(self, job: int) -> None:
        self.run(["scontrol", "release", job])

    def requeue(self, job: int) -> None:
        """A running job is ended and waits again, as after a preemption."""
        self.run(["scontrol", "requeue", job])

    def let_time_run_out(self, job: int, seconds: int = 1) -> None:
        """A running job's time is over in so many seconds, as after the whole of its limit. Slurm looks every half
        minute."""
        end = datetime.now() + timedelta(seconds=seconds)
        self.run(["scontrol", "update", f"jobid={job}", f"EndTime={end.isoformat(timespec='seconds')}"])

    def node_state(self, node: str) -> str:
        """A node's state, in Slurm's words without marks: IDLE, ALLOCATED, DOWN, IDLE+DRAIN, ..."""
        shown = self.run(["scontrol", "show", "node", node, "--oneliner"], check=False).stdout
        found = re.search(r"State=(\S+)", shown)
        return found[1].replace("+DYNAMIC_NORM", "").replace("*", "") if found else ""

    def wait_for_node(self, node: str, *starts: str, seconds: float = 60) -> str:
        """The node's state, once it starts with one of these words."""
        return wait_until(
            lambda: state if (state := self.node_state(node)).startswith(starts) else "",
            seconds,
            lambda: f"node {node} is {self.node_state(node)}\n{self._logs()}",
        )

    def drain(self, node: str) -> None:
        """A node takes no new job."""
        self.run(["scontrol", "update", f"nodename={node}", "state=drain", "reason=test"])

    def undrain(self, node: str) -> None:
        self.run(["scontrol", "update", f"nodename={node}", "state=resume"])

    def kill_node(self, node: str) -> None:
        """The node is lost at once with all that runs on it; Slurm is not told, and finds out some time later."""
        for process in self.processes(node):  # none sees another one die
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        self._daemons[node].kill()
        self._daemons.pop(node).wait()
        end_processes(self._marks(node))

    def declare_down(self, node: str) -> None:
        """Slurm is told that a node is lost, which it would find out by itself."""
        self.run(["scontrol", "update", f"nodename={node}", "state=down", "reason=lost"])

    def restore_node(self, node: str) -> None:
        """The node is there, with nothing on it; nothing happens where it is there already."""
        if node in self._daemons and self._daemons[node].poll() is None:
            return
        # As on a node that was started anew: a requeued job's script is not written over an older one.
        spool = self.folder / "spool" / node
        shutil.rmtree(spool, ignore_errors=True)
        spool.mkdir(parents=True)
        # What it starts inherits the mark.
        self._start(node, "slurmd", "-D", "-f", self.configuration, "-N", node, SLURMD_NODENAME=node)

    def processes(self, node: str, *words: str) -> list[int]:
        """Live processes on this node whose command line holds all these words."""
        marks = {f"{name}={value}".encode() for name, value in self._marks(node).items()}
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # it has ended
                continue
            if marks <= set(environment) and all(word in line for word in words):
                found.append(int(entry.name))
        return found

    def reset(self) -> None:
        """No jobs, and every node idle, as after the start."""
        self.run(["scontrol", "update", "partitionname=main", "state=up"])
        for node in self.nodes:
            self.restore_node(node)
        jobs = self.jobs(states=("all",))
        self.cancel("--user=root")
        for job in jobs:  # nothing is waited for that would still be kept
            end_processes({"SLURM_CONF": str(self.configuration), "SLURM_JOB_ID": str(job)})
        wait_until(self._idle, 90, self._logs)

    def _idle(self) -> bool:
        """Whether it is so. Nodes that are down or drained are resumed."""
        states = {node: self.node_state(node) for node in self.nodes}
        for node, state in states.items():
            if state.startswith("DOWN") or "DRAIN" in state:
                self.run(["scontrol", "update", f"nodename={node}", "state=resume"], check=False)
        return set(states.values()) == {"IDLE"} and not self.jobs()

    def _marks(self, node: str) -> dict[str, str]:
        return {"SLURM_CONF": str(self.configuration), "SLURMD_NODENAME": node}

    def _configure(self) -> None:
        for name in ("log", "state", "dev", "munge", *(f"tmp/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "munge").chmod(0o700)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for number in range(self.gpus):
            _make_device(self.folder / "dev" / f"gpu{number}")
        host = socket.gethostname().split(".")[0]
        port, *ports = _free_ports(1 + len(self.nodes))
        values = {"folder": self.folder, "host": host, "kill_wait": self.kill_wait, "lost_after": self.lost_after}
        nodes = [
            _NODE.format(name=node, host=host, port=own, cpus=self.cpus, gpus=self.gpus)
            for node, own in zip(self.nodes, ports, strict=True)
        ]
        self.configuration.write_text(_CONFIGURATION.format(port=port, **values) + "".join(nodes) + _PARTITION)
        devices = f"{self.folder}/dev/gpu[0-{self.gpus - 1}]"
        (self.folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu File={devices}\n")

    def _munged(self) -> list[str]:
        files = {"key-file": "munge/key", "socket": "munge.sock", "pid-file": "munge/pid", "seed-file": "munge/seed"}
        return ["--foreground", "--num-threads=2", *(f"--{name}={self.folder / file}" for name, file in files.items())]

    def _start(self, name: str, *words: object, **variables: str) -> None:
        with (self.folder / "log" / f"{name}.start").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                list(map(str, words)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment | variables,
                cwd=self.folder,
                start_new_session=True,
            )

    def _asked_of_job(self, job: int, form: str) -> str:
        words = ["squeue", "--noheader", "--states=all", f"--jobs={job}", f"--format={form}"]
        return self.run(words, check=False).stdout.strip()

    def _logs(self) -> str:
        ends = [path.read_text(errors="replace").splitlines()[-20:] for path in sorted(self.folder.glob("log/*"))]
        return "\n".join(line for lines in ends for line in lines)


def _path(environment: Mapping[str, str]) -> str:
    return os.pathsep.join([environment.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _make_device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def _free_ports(wanted: int) -> list[int]:
    """Ports that nobody listens on now; all different."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(wanted)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


def _guard(folder: Path) -> None:
    """Waits until the other end of its standard input is closed, and then ends all that belongs to the Slurm there."""
    sys.stdin.read()
    end_processes({"SLURM_CONF": str(folder / "slurm.conf")})
    shutil.rmtree(folder)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
