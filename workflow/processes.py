"""The processes of a sweep and of a run, told by what they inherit: two environment variables.

MPI starts ranks in sessions of their own, and Parsl its workers in process groups of theirs, so that neither group
nor parent tells whose they are.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

SWEEP = "FEDHPC_SWEEP"
"""The results folder that the process works for."""
RUN = "FEDHPC_RUN"
"""The run that the process works on: ``<algorithm>/<scenario>/trial-<n>``."""

_SECONDS_TO_DIE = 10.0


def end_processes(marks: Mapping[str, str], patience: float = 0.0) -> int:
    """Ends every process of this user on this machine that was started with all these variables, save this one and
    those that it descends from: those asked to end before have ``patience`` seconds to do so, then comes SIGKILL.

    Returns how many were killed; when it returns they are gone.
    """
    start = time.monotonic()
    killed: set[int] = set()
    # Again until none is found: one may have started another meanwhile.
    while (found := list(_marked(marks))) and time.monotonic() < start + patience + _SECONDS_TO_DIE:
        if time.monotonic() >= start + patience:
            for process in found:
                _signal(process, marks, signal.SIGKILL)
            killed.update(found)
        time.sleep(0.05)
    return len(killed)


def ask_to_end(marks: Mapping[str, str], spared_group: int | None = None) -> None:
    """Sends SIGTERM to every process of this user on this machine that was started with all these variables, save this
    one, those that it descends from, and those in the process group that is spared."""
    for process in _marked(marks):
        with suppress(ProcessLookupError):
            if os.getpgid(process) != spared_group:
                _signal(process, marks, signal.SIGTERM)


def any_run_of(folder: Path) -> bool:
    """Whether a process of this machine still works on a run of this results folder."""
    return any(_is_of_a_run(process) for process in _marked({SWEEP: str(folder)}))


def _is_of_a_run(process: int) -> bool:
    try:
        return f"\0{RUN}=".encode() in b"\0" + Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False


def _marked(marks: Mapping[str, str]) -> Iterator[int]:
    lineage = _lineage()
    for entry in Path("/proc").glob("[0-9]*"):
        process = int(entry.name)
        if process not in lineage and _has(process, marks) and not _is_resource_tracker(process):
            yield process


def _has(process: int, marks: Mapping[str, str]) -> bool:
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False
    return all(f"{name}={value}".encode() in environment for name, value in marks.items())


def _is_resource_tracker(process: int) -> bool:
    """Python's own helper, which removes the semaphores of the dead, and then ends."""
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def _lineage() -> set[int]:
    """This process and its ancestors."""
    lineage = set()
    process = os.getpid()
    while process > 0:
        lineage.add(process)
        try:
            # The name, in brackets, may hold anything; the parent is the second field after it.
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return lineage


def _signal(process: int, marks: Mapping[str, str], number: signal.Signals) -> None:
    # Looked at again, since a number may come to mean another process.
    if _has(process, marks):
        with suppress(ProcessLookupError):
            os.kill(process, number)
