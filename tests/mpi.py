"""Real MPI jobs for tests."""

import os
import subprocess
from collections.abc import Sequence

from fedhpc.ranks.world import mpiexec

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def mpi(ranks: int, command: Sequence[str], timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """The command on that many ranks, to its end."""
    launcher = [] if ranks == 1 else [mpiexec(), "-n", str(ranks)]
    environment = os.environ | ONE_THREAD
    return subprocess.run(
        [*launcher, *command], capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
