"""Processes that do not outlive the one that started them (Linux's prctl, PR_SET_PDEATHSIG).

``python -m workflow.parent_death COMMAND...`` runs a command so, and out of reach of the terminal's Ctrl-C, which is
for its parent to answer.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
# Looked up here, since between fork and exec nothing may be imported.
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def end_with_parent() -> None:
    """Asks the kernel to send this process SIGTERM when its parent dies; holds through exec.

    Meant for ``preexec_fn``. It is the parent's thread that counts: it must wait for the process.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


if __name__ == "__main__":
    end_with_parent()
    os.setpgid(0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
