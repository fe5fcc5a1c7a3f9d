"""Processes that do not outlive the one that started them (Linux's prctl, PR_SET_PDEATHSIG).

``python -m workflow.parent_death COMMAND...`` runs a command so, and out of reach of the terminal's Ctrl-C and of the
SIGTERM that Slurm sends to all of a job, which are for its parent to answer.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
# Looked up here, since between fork and exec nothing may be imported.
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Asks the kernel to send this process a signal when its parent dies; holds through exec.

    Meant for ``preexec_fn``. It is the parent's thread that counts: it must wait for the process.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def end_with_parent_only() -> None:
    """As ``end_with_parent``, by SIGKILL, and out of SIGTERM's reach until the process, or one that it starts, unblocks
    it. A launcher to which SIGTERM came would end its ranks, which are to end by themselves."""
    end_with_parent(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


if __name__ == "__main__":
    end_with_parent_only()
    os.setpgid(0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
