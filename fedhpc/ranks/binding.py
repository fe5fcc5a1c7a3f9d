"""A rank takes its share of the cores and GPUs that its run has on this host, before torch or MPI start.

No launcher is asked to bind: each does it in a way of its own, and few know of the runs beside this one.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TypeVar

from fedhpc.ranks.world import LauncherError

T = TypeVar("T")

_LOCAL = (
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)
"""What launchers tell a process: (its number among those of its host, how many these are). Intel MPI's names are
MPICH's. Slurm's come last, since a launcher within a Slurm job inherits them."""


def local_place(environment: Mapping[str, str]) -> tuple[int, int]:
    """This rank's number among those of its host, and how many these are, by its launcher's count; (0, 1) where there
    is no launcher. Slurm tells ``4(x2)`` of two hosts with four each, and ``2,1`` where they differ."""
    for rank, ranks in _LOCAL:
        if rank in environment:
            counts = [int(count.partition("(")[0]) for count in environment.get(ranks, "1").split(",")]
            number = int(environment[rank])
            return number, max(*counts, number + 1)
    return 0, 1


def share(things: Sequence[T], place: tuple[int, int]) -> Sequence[T]:
    """A rank's part: things are dealt out evenly in their order, what is left over to nobody; where there are fewer
    things than ranks, they are shared in turn."""
    number, ranks = place
    each = len(things) // ranks
    return things[number * each : (number + 1) * each] if each else [things[number % len(things)]]


def bind(cores: Sequence[int], gpus: Sequence[str]) -> None:
    """Keeps this process to its share of the run's ``cores`` and lets it see its share of the ``gpus`` alone; nothing
    changes where there are none.

    Raises LauncherError where this process may use none of its cores.
    """
    place = local_place(os.environ)
    if cores:
        mine, there = share(cores, place), os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, mine)
        except OSError:
            raise LauncherError(
                f"rank {place[0]} of this host is to have the cores {_listed(mine)}, and its launcher lets it use "
                f"{_listed(sorted(there))}; let the launcher bind nothing, or run without --cores"
            ) from None
    if gpus:
        variable = "ROCR_VISIBLE_DEVICES" if "ROCR_VISIBLE_DEVICES" in os.environ else "CUDA_VISIBLE_DEVICES"
        os.environ[variable] = ",".join(share(gpus, place))


def _listed(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores))
