"""A rank of the probe behind ``fedhpc site check``: what MPI, torch and this rank's place are like.

``python -m fedhpc.ranks.probe FILE [--cores 0,1] [--gpus 0,1]``: every rank takes its share as a run's ranks do and
looks around, rank 0 writes what all saw, as JSON. A launcher that does not know the MPI library makes each process a
world of its own, which the file then tells.
"""

import json
import os
import socket
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpc.ranks.binding import bind
from fedhpc.ranks.world import LauncherError, join_world, wait_for_all
from fedhpc.store.replacing import replacing

if TYPE_CHECKING:
    from mpi4py import MPI

_SMALL, _LARGE = 8, 5_000_000
_PINGS_SMALL, _PINGS_LARGE = 500, 20


def look_around(file: Path, cores: Sequence[int] = (), gpus: Sequence[str] = ()) -> None:
    """Writes ``{"error": sentence}``, or the MPI ``library``, each rank's view and, of two ranks or more, the seconds
    that 8 bytes need from rank 0 to rank 1 and the bytes a second of 5 MB messages."""
    try:
        bind(cores, gpus)
        world = join_world()
    except LauncherError as error:
        _write(file, {"error": str(error)})
        return
    view = _view()
    if world is None:
        _write(file, {"library": "none", "ranks": [view]})
        return
    from mpi4py import MPI

    wait_for_all(world)
    views = world.gather(view, root=0)
    small = _one_way_seconds(world, _SMALL, _PINGS_SMALL)
    large = _one_way_seconds(world, _LARGE, _PINGS_LARGE)
    if views is not None:
        library = " ".join(MPI.Get_library_version().split("\n")[0].strip(" \0").split())
        speeds = {"latency_seconds": small, "bytes_per_second": _LARGE / large} if small and large else {}
        _write(file, {"library": library, "ranks": views, **speeds})


def _view() -> dict[str, Any]:
    start = time.monotonic()
    import torch

    seconds = time.monotonic() - start
    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "host": socket.gethostname(),
        "node": os.environ.get("SLURMD_NODENAME", ""),
        "cores": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
        "devices": devices,
        "import_seconds": seconds,
    }


def _one_way_seconds(world: "MPI.Intracomm", size: int, pings: int) -> float | None:
    """Half of a ping-pong between ranks 0 and 1; None on the other ranks."""
    if world.size < 2 or world.rank > 1:
        return None
    buffer, other = bytearray(size), 1 - world.rank

    def there_and_back() -> None:
        if world.rank == 0:
            world.Send(buffer, dest=other)
            world.Recv(buffer, source=other)
        else:
            world.Recv(buffer, source=other)
            world.Send(buffer, dest=other)

    there_and_back()  # the first opens the connection
    start = time.perf_counter()
    for _ in range(pings):
        there_and_back()
    return (time.perf_counter() - start) / (2 * pings)


def _write(file: Path, found: dict[str, Any]) -> None:
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--cores", default="")
    parser.add_argument("--gpus", default="")
    told = parser.parse_args()
    look_around(
        told.file, [int(core) for core in told.cores.split(",") if core], list(filter(None, told.gpus.split(",")))
    )
