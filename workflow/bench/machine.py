"""On what it was measured."""

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def machine() -> dict[str, str | int]:
    """Processor, usable cores, the versions of what computes and sends, and the device that models are trained on."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "mpi": _mpi(),
        "fedhpc": version("fedhpc"),
        "device": "cpu",
    }


def _processor() -> str:
    """What the kernel calls it, else what Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _mpi() -> str:
    # Asked in another process, since MPI starts with the import.
    code = "from mpi4py import MPI; print(MPI.Get_library_version().strip(' \\0').splitlines()[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return " ".join(done.stdout.split())
