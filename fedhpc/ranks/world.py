"""Which MPI job this process belongs to, if any, and whether the launcher and the MPI library know each other."""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fedhpc.interruption import Interrupted

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")

# What each launcher tells its processes: (variable with the number of ranks, the launcher's name).
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "Open MPI's mpiexec"),
    ("PMI_SIZE", "an MPICH or Intel MPI mpiexec, or srun --mpi=pmi2"),
    ("PALS_SPOOL_DIR", "PALS mpiexec"),
    ("MV2_COMM_WORLD_SIZE", "MVAPICH's mpiexec"),
)
_PMIX = "PMIX_RANK"
_SECONDS_TO_PASS_ON = 0.5
_SECONDS_TO_LEAVE = 20.0

LOG = "FEDHPC_LOG"
"""The environment variable that names the job's log; whoever sets it opens that file for appending only."""


class LauncherError(Exception):
    """The launcher that started this process and the MPI library in use do not know each other."""


def mpiexec() -> str:
    """The launcher that belongs to this Python: the one beside it, else the one on PATH.

    Raises LauncherError where there is none.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    if beside.exists():
        return str(beside)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = Path(folder) / "mpiexec"
        if os.access(found, os.X_OK):
            return str(found)
    raise LauncherError(
        f"no mpiexec beside {sys.executable} and none on PATH; install the mpich extra (pip install 'fedhpc[mpich]'), "
        "load the cluster's MPI module, or name the site's launcher"
    )


def join_world(*, ranks_may_die: bool = False) -> "MPI.Intracomm | None":
    """The communicator of all ranks, or None where this process runs alone. MPI starts only if a launcher is about.
    Where ``ranks_may_die``, it does not end when the process does: that would wait for the dead.

    Raises LauncherError where a launcher started several processes and the MPI library sees only one: then each
    would do the whole work by itself.
    """
    launcher, ranks = _launched_by()
    if launcher is None:
        return None
    if ranks_may_die:
        import mpi4py

        mpi4py.rc.finalize = False
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.size == 1 and ranks > 1:
        library = MPI.Get_library_version().split("\n")[0].strip(" \0")
        raise LauncherError(
            f"{launcher} started {ranks} processes, but the MPI library in use ({library}) sees one; "
            f"start them with {mpiexec()}, or let mpi4py use the launcher's library (MPI4PY_LIBMPI, MPI4PY_MPIABI)"
        )
    if world.size == 1:
        return None
    _unname_shared_memory(world)
    return world


def _unname_shared_memory(world: "MPI.Intracomm") -> None:
    """MPICH's shared memory stays mapped without its name, and a job that is killed then leaves none behind."""
    wait_for_all(world)
    try:
        mapped = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    for line in mapped:
        name = line.split()[-1]
        if name.startswith("/dev/shm/mpich_shm_"):
            Path(name).unlink(missing_ok=True)


def local_rank(world: "MPI.Intracomm | None") -> int:
    """This rank's number among those of its host; every rank must call it."""
    if world is None:
        return 0
    from mpi4py import MPI

    host = world.Split_type(MPI.COMM_TYPE_SHARED)
    number = host.rank
    host.Free()
    return number


def _launched_by() -> tuple[str | None, int]:
    for variable, name in _LAUNCHERS:
        if variable in os.environ:
            count = os.environ[variable]
            return name, int(count) if count.isdigit() else 1
    if _PMIX in os.environ:
        return "a PMIx launcher", int(os.environ.get("SLURM_STEP_NUM_TASKS", "1"))
    return None, 1


@contextmanager
def abort_together(world: "MPI.Intracomm | None", quietly: tuple[type[Exception], ...]) -> Iterator[None]:
    """Within it, an exception on one rank ends all of them: its traceback is printed and the job aborts with status 1.
    One of ``quietly`` is no defect: only its sentence is printed, and the status is 2, or that of an Interrupted. A
    process on its own just raises."""
    try:
        yield
    except BaseException as error:
        if world is None:
            raise
        sentence = f"rank {world.rank}: {error}\n" if isinstance(error, quietly) else traceback.format_exc()
        _leave_behind(sentence)
        world.Abort(error.status if isinstance(error, Interrupted) else 2 if isinstance(error, quietly) else 1)
        # It comes back where the launcher was told to let the others live; a rank killed by a signal ends them all.
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def dying_alone(world: "MPI.Intracomm") -> Iterator[None]:
    """Within it, an exception ends this rank and no other: its traceback is printed."""
    try:
        yield
    except BaseException:
        _leave_behind(f"rank {world.rank} ends:\n{traceback.format_exc()}")
        os._exit(1)


def _leave_behind(sentence: str) -> None:
    """Last words go straight into the job's log, where there is one: what a launcher has not passed on yet when the job
    aborts is lost. Where there is none, the launcher gets a moment. A full disk keeps nobody from ending."""
    log = os.environ.get(LOG)
    with suppress(OSError):
        if log is not None:
            with Path(log).open("a") as file:
                file.write(sentence)
            return
        sys.stderr.write(sentence)
        sys.stderr.flush()
    time.sleep(_SECONDS_TO_PASS_ON)


@contextmanager
def watched(world: "MPI.Intracomm | None", *, ranks_may_die: bool = False) -> Iterator[None]:
    """Within it, this rank ends when its launcher or a rank of its host is gone; where ``ranks_may_die``, of the ranks
    rank 0 only."""
    if world is None:
        yield
        return
    from fedhpc.ranks.watchdog import Watchdog

    with Watchdog(world, only_rank_0=ranks_may_die):
        yield


def leave_world(world: "MPI.Intracomm | None") -> None:
    """Ends MPI with all ranks, which must all call it, where ``join_world`` was told that ranks may die; and this
    process, should one die even now. Launchers take a rank that ends without this for one that failed."""
    if world is None:
        return
    from mpi4py import MPI

    sys.stdout.flush()
    sys.stderr.flush()
    patience = threading.Timer(_SECONDS_TO_LEAVE, os._exit, (0,))
    patience.daemon = True
    patience.start()
    MPI.Finalize()
    patience.cancel()


def wait_for_all(world: "MPI.Intracomm | None") -> None:
    """Returns when every rank has called it; a waiting rank rests."""
    if world is None:
        return
    from fedhpc.ranks.mailbox import Rest

    request, rest = world.Ibarrier(), Rest()
    while not request.Test():
        rest.a_moment()


def tell_all(world: "MPI.Intracomm", number: float) -> list[float]:
    """Every rank's number, in their order, on every rank; a waiting rank rests."""
    wait_for_all(world)
    return world.allgather(number)


def agree(world: "MPI.Intracomm | None", decide: Callable[[], T]) -> T:
    """What ``decide()`` returns on rank 0, on every rank; what it raises there is raised on every rank."""
    if world is None:
        return decide()
    outcome: tuple[T | None, Exception | None] = (None, None)
    if world.rank == 0:
        try:
            outcome = (decide(), None)
        except Exception as error:
            outcome = (None, error)
    wait_for_all(world)
    result, failure = world.bcast(outcome, root=0)
    if failure is not None:
        raise failure
    return result  # type: ignore[no-any-return]
