"""Nobody hangs: each rank watches its launcher and the ranks beside it, and ends when one of them is gone.

Launchers do this too, most of the time; a rank that waits for a dead one would otherwise wait for ever. Ranks on
other hosts are left to their own watchdogs and to the launcher.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import Self

from mpi4py import MPI

from fedhpc.processes import is_alive

_SECONDS = 1.0


class Watchdog:
    """Within it, a thread looks every second whether the parent and the ranks of this host are alive, or of these
    ``only_rank_0``."""

    def __init__(self, world: MPI.Intracomm, only_rank_0: bool = False) -> None:
        own = (_place(), os.getpid())
        peers = world.allgather(own)
        self._peers = {
            rank: pid
            for rank, (place, pid) in enumerate(peers)
            if place == own[0] and rank != world.rank and (rank == 0 or not only_rank_0)
        }
        self._parent = os.getppid()
        self._rank = world.rank
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._enough.wait(_SECONDS):
            lost = self._lost()
            if lost is not None:
                with contextlib.suppress(OSError):  # the log may be gone with the launcher
                    print(f"rank {self._rank} ends: {lost} is gone", file=sys.stderr, flush=True)
                # Nothing gentler works: a rank may sit in an MPI call, and os._exit leaves the launcher waiting.
                os.kill(os.getpid(), signal.SIGKILL)

    def _lost(self) -> str | None:
        if os.getppid() != self._parent:
            return "the launcher"
        for rank, pid in self._peers.items():
            if not is_alive(pid):
                return f"rank {rank} (process {pid})"
        return None


def _place() -> tuple[str, str]:
    """The host and the process namespace: where process numbers mean the same."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return socket.gethostname(), namespace
