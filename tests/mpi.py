"""Real MPI jobs for tests."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from fedhpc.experiment import Run
from fedhpc.ranks.world import mpiexec

_PROGRAM = """
import sys
from pathlib import Path
from fedhpc.experiment import Run, load_experiment
from fedhpc.run import run
from workflow.sites import step_wishes
file, algorithms, scenario, trial, folder, checkpoint_seconds, step = sys.argv[1:]
for algorithm in algorithms.split(","):
    run(load_experiment(Path(file)), Run(algorithm, scenario, int(trial)), Path(folder), lease=None,
        checkpoint_seconds=float(checkpoint_seconds), step=step_wishes(step))
"""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def mpi(ranks: int, command: Sequence[str], timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """The command on that many ranks, to its end."""
    launcher = [] if ranks == 1 else [mpiexec(), "-n", str(ranks)]
    environment = os.environ | ONE_THREAD
    return subprocess.run(
        [*launcher, *command], capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )


def run_command(file: Path, cell: Run, folder: Path, checkpoint_seconds: float = 30, step: str = "{}") -> list[str]:
    """What each rank of a run executes. Several algorithms, with commas between them, run one after the other."""
    arguments = [file, cell.algorithm, cell.scenario, cell.trial, folder, checkpoint_seconds, step]
    return [sys.executable, "-c", _PROGRAM, *map(str, arguments)]


def numbers(result: Path) -> dict[str, bytes]:
    """The bytes of every numeric variable of a result, but those of wall-clock time."""
    with h5py.File(result) as file:
        return {
            name: np.asarray(dataset).tobytes()
            for name, dataset in file.items()
            if dataset.dtype.kind in "iuf" and "wall" not in name
        }


def children(parent: int) -> list[int]:
    """The processes that it started, in the order of their numbers, which is that of their starts."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return sorted(found)
