"""On what it was measured."""

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

_LIBRARIES = """
import torch
from mpi4py import MPI
print(" ".join(MPI.Get_library_version().strip(" \\0").splitlines()[0].split()))
print(torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu")
"""


def machine() -> dict[str, str | int]:
    """Processor, usable cores, the versions of what computes and sends, and the device: the GPU if there is one."""
    # Asked of another process: MPI starts with the import.
    asked = subprocess.run([sys.executable, "-c", _LIBRARIES], capture_output=True, text=True, check=True)
    mpi, device = asked.stdout.splitlines()[-2:]
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "mpi": mpi,
        "fedhpc": version("fedhpc"),
        "device": device,
    }


def _processor() -> str:
    """What the kernel calls it, else what Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
