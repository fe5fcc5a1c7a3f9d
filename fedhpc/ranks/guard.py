"""A silo may die, and its job goes on: a small process in the rank's place that outlives it.

MPICH's hydra (5.0) ends every rank of a job one of whose processes was killed by a signal, with
``-disable-auto-cleanup`` as well; with it, a process that merely ends is no reason. So the process that the launcher
started only waits, and a child, which inherits the launcher's connection, is the rank. A launcher also sends SIGUSR1 to
the others when a process has ended, which must not kill them.
"""

import json
import os
import select
import signal
import socket
import sys
import time

from fedhpc.processes import is_alive

_SECONDS_BETWEEN_LOOKS = 0.2
_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def launched_rank() -> int:
    """This process's rank by its launcher's count; 0 where there is no launcher."""
    return int(next((os.environ[name] for name in _RANKS if name in os.environ), "0"))


class Guarded:
    """The guard's child: what it tells its guard."""

    def __init__(self, to_guard: int | None) -> None:
        self._to_guard = to_guard

    def federation_begins(self, server_host: str, server_process: int) -> None:
        """From now on the guard ends well whatever becomes of the silo, and ends the silo when the process of rank 0,
        if it is one of this host, is gone: a stopped silo would otherwise keep the job alive."""
        if self._to_guard is not None:
            message = {"host": server_host, "process": server_process}
            os.write(self._to_guard, json.dumps(message).encode())


def stand_guard() -> Guarded:
    """Call it before MPI starts. On rank 0 it returns at once; on any other it returns in a child, and this process
    becomes its guard."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if launched_rank() == 0:
        return Guarded(None)
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        return Guarded(writing)
    os.close(writing)
    os._exit(_watch(child, reading))


def _watch(child: int, reading: int) -> int:
    """The exit status, once the child has ended."""
    launcher, server, begun = os.getppid(), 0, False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if os.getppid() != launcher or (server and not is_alive(server) and not _ends_by_itself(child)):
            os.kill(child, signal.SIGKILL)
        if begun:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        elif select.select([reading], [], [], _SECONDS_BETWEEN_LOOKS)[0]:
            told = os.read(reading, 4096)
            begun = bool(told)
            if begun:
                message = json.loads(told)
                server = message["process"] if message["host"] == socket.gethostname() else 0
            else:
                time.sleep(_SECONDS_BETWEEN_LOOKS)  # it is ending
    if begun:
        return 0
    if os.WIFSIGNALED(status):
        # Before the federation begins, the loss of a rank ends the job.
        os.kill(os.getpid(), signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def _ends_by_itself(child: int) -> bool:
    """Whether the child ends within a second."""
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        if not is_alive(child):
            return True
        time.sleep(0.02)
    return False
