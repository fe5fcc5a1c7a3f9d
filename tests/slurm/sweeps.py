"""Sweeps on a real Slurm, in both ways, inside one allocation and by pilot jobs, and what of them may be killed."""

import subprocess
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.slurm.cluster import Cluster
from tests.workflow.experiments import in_background, write

ROOT = Path(__file__).parents[2]
CHECKPOINT_SECONDS = 0.5
BUFFER_SIZE = 2
"""Client updates that make a server version."""
RUN = "-m workflow run"
POOL = "-m parsl.executors.high_throughput.process_worker_pool"


def site(path: Path, way: str, ranks: int = 1, setup: str = "", **slurm: Any) -> Path:
    """One run a node, of so many ranks. Pilots are asked for quickly, as nobody else has to be answered here."""
    settings = {"way": way, "time": "10", "signal_seconds": 60, "poll_seconds": 1, **slurm}
    here = {
        "ranks_per_run": ranks,
        "cores_per_rank": 2 // ranks,
        "cores": 2,
        "checkpoint_seconds": CHECKPOINT_SECONDS,
        "slurm": settings,
    }
    write(path, here)
    if setup:
        path.write_text(f"setup: |\n  {setup}\n{path.read_text()}")
    return path


@dataclass(frozen=True)
class Sweep:
    """An experiment, the site's file, and the folder that takes the results."""

    slurm: Cluster
    experiment: Path
    site: Path
    folder: Path

    @property
    def words(self) -> list[str]:
        """What is submitted, or given to bash."""
        return [str(ROOT / "jobs" / "sweep.sh"), str(self.experiment), *("--site", str(self.site)), *self._output]

    def submit(self, nodes: int) -> int:
        """The sweep's own job, which holds so many nodes; its output is in the results folder's neighbour."""
        options = [f"--nodes={nodes}", "--cpus-per-task=2", "--time=10", "--signal=B:TERM@60"]
        return self.slurm.sbatch(*options, f"--output={self.log}", *self.words, environment=self.environment)

    def driver(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """The sweep as a process of this machine, as on a login node; killed at the end of the block."""
        return in_background(["bash", *self.words], self.log, self.slurm.environment | self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """This Python, as it is."""
        return {"FEDHPC_ENVIRONMENT": "none", "FEDHPC_PYTHON": sys.executable}

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def told(self) -> str:
        """What the sweep and its runs said, for whoever looks into a failure."""
        logs = [self.log, *sorted(self.folder.glob("logs/*/*/trial-*.log"))]
        return "\n".join(f"{path}:\n{_end(path)}" for path in logs if path.exists())

    def runs_on(self, node: str) -> set[str]:
        """The runs that have processes on a node."""
        return {run for process in self.slurm.processes(node, RUN) if (run := _variable(process, "FEDHPC_RUN"))}

    def drivers(self) -> list[int]:
        """The process of the sweep itself, wherever it is."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            words = _words(int(entry.name))
            if words[1:4] == ["-m", "workflow", "sweep"] and str(self.folder) in words:
                found.append(int(entry.name))
        return found

    def nodes_with_runs(self) -> dict[str, set[str]]:
        """The nodes that run something, and what."""
        return {node: runs for node in self.slurm.nodes if (runs := self.runs_on(node))}

    def ranks(self, *nodes: str) -> list[int]:
        """The ranks on these nodes, without what launched them; by default, all."""
        found = (process for node in nodes or self.slurm.nodes for process in self.slurm.processes(node, RUN))
        return sorted(process for process in found if "python" in _words(process)[0])

    @property
    def _output(self) -> tuple[str, str]:
        return "--output", str(self.folder)


def _words(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # it has ended
        return []


def _variable(process: int, name: str) -> str:
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return ""
    return next((each.partition(b"=")[2].decode() for each in environment if each.startswith(f"{name}=".encode())), "")


def _end(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-40:])
