"""The probe of ``fedhpc site check`` on a compute node: looks at folder, lease, network and Python, and starts ranks as
a run's are started.

``python -m workflow.site_probe JSON``; all that it needs is in its argument, since the folder may not be there. What it
finds goes into ``FOLDER/node.json`` and, should nobody see that, over the connection to whoever asked.
"""

import hashlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedhpc.mistakes import ExperimentError
from fedhpc.ranks.world import LauncherError
from fedhpc.store.lease import BEAT_SECONDS, LeaseLost, check_lease, heartbeat
from fedhpc.store.replacing import replacing
from workflow.apps import rank_environment
from workflow.placement import NoRoom, placed, visible_gpus
from workflow.processes import RUN, SWEEP, end_processes
from workflow.sites import Site

GREETING = b"fedhpc site check\n"
_SECONDS_TO_CONNECT = 10.0
_SECONDS_FOR_RANKS = 180.0
_PACKAGES = ("torch", "mpi4py", "numpy", "h5py", "parsl")
_TAIL = 8


def probe(order: dict[str, Any]) -> None:
    """Looks at everything in turn; what fails is told, and does not keep the rest from being looked at."""
    folder, site = Path(order["folder"]), Site.model_validate(order["site"])
    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "address": _told(lambda: reach(order["address"], order["port"])),
        "files": _told(lambda: try_files(folder)),
        "lease": _told(lambda: watch_lease(folder, order["lease"])),
        "python": python_here(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": list(visible_gpus(os.environ, 0)),
        "ranks": _told(lambda: start_ranks(folder, site)),
    }
    text = json.dumps(found)
    try:
        if not folder.exists():
            raise FileNotFoundError(folder)  # made here, it would be another one
        with replacing(folder / "node.json") as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError:
        answer(order["address"], order["port"], text)


def _told(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return look()
    except ExperimentError as error:
        return {"error": "; ".join(error.mistakes)}
    except (OSError, LauncherError, LeaseLost, NoRoom, subprocess.SubprocessError) as error:
        return {"error": str(error)}


def reach(address: str, port: int) -> dict[str, Any]:
    """Seconds until whoever asked has answered from there."""
    start = time.monotonic()
    with socket.create_connection((address, port), _SECONDS_TO_CONNECT) as connection:
        connection.settimeout(_SECONDS_TO_CONNECT)
        if connection.recv(len(GREETING)) != GREETING:
            raise OSError(f"{address}:{port} is somebody else's")
    return {"seconds": time.monotonic() - start}


def answer(address: str, port: int, text: str) -> None:
    """Sends the text to whoever asked, and returns when it was taken."""
    with socket.create_connection((address, port), _SECONDS_TO_CONNECT) as connection:
        # What closes with something unread takes back what it sent.
        connection.recv(len(GREETING))
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


def try_files(folder: Path) -> dict[str, Any]:
    """Does what results and leases need of the file system. ``read`` is what the login node wrote."""
    seen = (folder / "from_login").read_text(encoding="utf-8")
    written = folder / "written_on_node"
    written.write_text(socket.gethostname(), encoding="utf-8")
    os.replace(written, folder / "from_node")
    try:
        os.link(folder / "from_node", folder / "linked_on_node")
        links = True
    except OSError:
        links = False
    return {"read": seen, "links": links}


def watch_lease(folder: Path, token: str) -> dict[str, Any]:
    """Waits for a heartbeat of the login node's; ``behind`` is how old it was when it was seen here (s): the two
    clocks' difference and the file system's delay."""
    check_lease(folder, token)
    first, until = heartbeat(folder), time.monotonic() + 3 * BEAT_SECONDS
    while time.monotonic() < until:
        time.sleep(0.05)
        last = heartbeat(folder)
        if last is not None and last != first:
            return {"behind": time.time() - last}
    raise LeaseLost(f"no heartbeat was seen for {3 * BEAT_SECONDS:.0f} s, and one comes every {BEAT_SECONDS:.0f}")


def python_here() -> dict[str, str]:
    """What must be the same on login and compute nodes for one sweep to be one program; ``prefix`` may differ."""
    sources, home = hashlib.sha256(), Path(__file__).resolve().parent.parent
    for file in sorted([*home.glob("fedhpc/**/*.py"), *home.glob("workflow/**/*.py")]):
        sources.update(file.read_bytes())
    found = {"python": platform.python_version(), "fedhpc": sources.hexdigest()[:12]}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return {**found, "machine": platform.machine(), "prefix": sys.prefix}


def start_ranks(folder: Path, site: Site) -> dict[str, Any]:
    """What ``fedhpc.ranks.probe`` wrote, and the ``launcher`` that started it; where it wrote nothing, ``error`` is the
    end of what it printed."""
    marks = {SWEEP: str(folder), RUN: "site/check/probe"}
    log, file = folder / "ranks.log", folder / "ranks.json"
    with placed(site, lambda: None) as placement, log.open("wb") as output:
        launcher = site.launch(placement)
        try:
            done = subprocess.run(
                [*launcher, sys.executable, "-m", "fedhpc.ranks.probe", str(file), *placement.run_options()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=rank_environment(site, marks),
                timeout=_SECONDS_FOR_RANKS,
            )
            ended = f"exit status {done.returncode}" if done.returncode >= 0 else signal.Signals(-done.returncode).name
        except subprocess.TimeoutExpired:
            ended = f"no answer within {_SECONDS_FOR_RANKS:.0f} s"
        finally:
            end_processes(marks)
    if file.exists():
        return {"launcher": launcher, **json.loads(file.read_text(encoding="utf-8"))}
    tail = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-_TAIL:]
    return {"launcher": launcher, "error": "\n".join([ended, *tail])}


if __name__ == "__main__":
    probe(json.loads(sys.argv[1]))
