"""``fedhpc site check``: a probe of two ranks, started as a run's ranks are, tells what works and how to mend the rest.

1. Slurm is asked whether it would take the site's jobs; then one is submitted, and its state told while it waits.
2. The probe on the node (``workflow.site_probe``) looks at folder, lease, network, Python, and starts the ranks.
3. Each finding becomes a line, ``ok`` or ``wrong`` with the mend.
"""

import json
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from rich.console import Console

from fedhpc.ranks.world import LauncherError
from fedhpc.store.lease import PATIENCE_SECONDS, take_lease
from workflow.parsl_config import address_of_sweep
from workflow.results_folder import make_writable
from workflow.site_probe import GREETING, python_here
from workflow.sites import Site, Slurm
from workflow.slurm import Job, SlurmError, cancel, job, refusal, sbatch
from workflow.submission import HOME, job_options, node_options

_POLL_SECONDS = 1.0
_SECONDS_FOR_FILES = 30.0
_SECONDS_OF_CLOCKS = 10.0
_SLOW_IMPORT_SECONDS = 20.0
_TAIL = 6
_FOR_EVER = {
    "PartitionTimeLimit": "slurm.time is longer than the partition allows (sinfo -o '%P %l'); lower it",
    "PartitionNodeLimit": "slurm.nodes is more than the partition allows; lower it or name another slurm.partition",
    "PartitionDown": "the partition is down; name another slurm.partition",
    "PartitionInactive": "the partition is inactive; name another slurm.partition",
    "InvalidAccount": "slurm.account is none of yours (sacctmgr show associations user=$USER)",
    "InvalidQOS": "slurm.qos is none of yours (sacctmgr show associations user=$USER format=account,qos)",
    "BadConstraints": "no nodes are like that; correct slurm.constraint or slurm.options",
    "AssocMaxWallDurationPerJobLimit": "slurm.time is longer than the account may ask for; lower it",
    "QOSMaxWallDurationPerJobLimit": "slurm.time is longer than the QOS allows; lower it or name another slurm.qos",
}
_REFUSALS = (
    ("could not establish a configuration source", "there is no Slurm here: run it on the cluster's login node"),
    ("invalid account", "correct slurm.account; 'sacctmgr show associations user=$USER' lists yours"),
    ("accounting/qos policy", "ask for less in slurm.time, slurm.nodes or slurm.max_blocks, or name another slurm.qos"),
    ("partition", "correct slurm.partition; 'sinfo -s' lists what there is"),
    ("account", "correct slurm.account; 'sacctmgr show associations user=$USER' lists yours"),
    ("qos", "correct slurm.qos; 'sacctmgr show associations user=$USER format=account,qos' lists yours"),
    ("time limit", "lower slurm.time; 'sinfo -o \"%P %l\"' lists what partitions allow"),
    (
        "node configuration",
        "no node can give that: lower cores, slurm.nodes or what slurm.options asks for ('sinfo -N -o \"%N %t %c %G\"' "
        "lists nodes, their states, cores and GPUs)",
    ),
)
_NO_MPI = (
    "launcher: its ranks do not find each other; with srun say what the MPI library speaks (srun --mpi=pmi2 for MPICH, "
    "--mpi=pmix for Open MPI, --mpi=cray_shasta for Cray's; 'srun --mpi=list'), or let mpi4py use the launcher's own "
    "library (MPI4PY_LIBMPI)"
)


class _Report:
    """Lines as they are found; remembers whether one of them was wrong."""

    def __init__(self, console: Console) -> None:
        self._console, self.wrong = console, False

    def ok(self, line: str) -> None:
        self._say(f"ok     {line}")

    def bad(self, line: str, mend: str) -> None:
        self.wrong = True
        self._say(f"wrong  {line}\n{mend}")

    def note(self, line: str) -> None:
        self._say(f"       {line}")

    def _say(self, line: str) -> None:
        self._console.print(line.replace("\n", "\n       "), markup=False, highlight=False, soft_wrap=True)


def check_site(site: Site, results: Path, seconds: float, console: Console) -> int:
    """Checks the site with a folder within ``results``, which is gone afterwards; a job that has not begun after
    ``seconds`` is taken back. Returns 0 where all is well and 2 where something is wrong.

    Raises ExperimentError where ``results`` cannot be written to here.
    """
    report = _Report(console)
    make_writable(results)
    folder = Path(mkdtemp(prefix=".site-check-", dir=results.resolve()))
    try:
        if site.slurm is not None and not _accepted(site, site.slurm, report):
            return 2
        _check(_for_two_ranks(site), folder, seconds, report)
    except (SlurmError, LauncherError) as error:
        report.bad(str(error), "mend that and check again")
    finally:
        rmtree(folder, ignore_errors=True)
    return 2 if report.wrong else 0


def _accepted(site: Site, slurm: Slurm, report: _Report) -> bool:
    asked = {"a job for its runs": node_options(site, slurm)}
    if slurm.way == "blocks":
        asked["a job for a sweep"] = job_options(site, slurm)
    for what, words in asked.items():
        if complaint := refusal([*words, "--wrap=true"]):
            mend = next((mend for word, mend in _REFUSALS if word in complaint.lower()), "correct the slurm block")
            report.bad(f"Slurm does not take {what} ({shlex.join(words)}): {complaint}", mend)
        else:
            report.ok(f"Slurm takes {what}: {shlex.join(words)}")
    return not report.wrong


def _for_two_ranks(site: Site) -> Site:
    """The site with runs of two ranks: on a node, or on two where its runs have several."""
    nodes = min(site.nodes_per_run, 2)
    changes: dict[str, Any] = {"ranks_per_run": 2, "runs_per_node": None, "nodes_per_run": nodes}
    if site.slurm is not None:
        changes["slurm"] = site.slurm.model_copy(update={"nodes": nodes})
    return site.model_copy(update=changes)


def _check(site: Site, folder: Path, seconds: float, report: _Report) -> None:
    (folder / "from_login").write_text(socket.gethostname(), encoding="utf-8")
    # Wherever a sweep lives, its own first node or here, the way to this machine is the one that can be tried.
    by_blocks = (
        site
        if site.slurm is None
        else site.model_copy(update={"slurm": site.slurm.model_copy(update={"way": "blocks"})})
    )
    with take_lease(folder) as lease, _listening() as (port, answers):
        order = {
            "folder": str(folder),
            "site": site.model_dump(mode="json"),
            "lease": lease.token,
            "address": address_of_sweep(by_blocks),
            "port": port,
        }
        place = str(site.file) if site.file is not None else "local"
        command = ["bash", str(HOME / "jobs" / "on_node.sh"), place, sys.executable]
        command += ["-m", "workflow.site_probe", json.dumps(order)]
        ended = _run_here(command, folder) if site.slurm is None else _run_there(command, site, folder, seconds, report)
        if ended is None:
            return
        found = _found(folder, answers)
    if found is None:
        _no_answer(ended, folder, report)
        return
    for judge in (_folder, _lease, _address, _python, _node, _ranks):
        judge(found, site, folder, report)


def _no_answer(ended: str, folder: Path, report: _Report) -> None:
    if tail := _last_lines(folder / "job.log"):
        told = "\n".join([f"the probe ended without an answer ({ended}); it printed", *tail])
        report.bad(told, "the site's setup or Python fails there, as it says")
    else:
        report.bad(
            f"the probe ended without an answer ({ended}) and printed nothing",
            f"compute nodes do not see {HOME}, as it seems: it must lie on a file system that they share",
        )


def _run_here(command: list[str], folder: Path) -> str | None:
    with (folder / "job.log").open("wb") as output:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    return f"exit status {done.returncode}"


def _run_there(command: list[str], site: Site, folder: Path, seconds: float, report: _Report) -> str | None:
    """How the job ended, in words; None where it did not begin, which is told."""
    assert site.slurm is not None
    words = [*node_options(site, site.slurm), "--job-name=fedhpc-site-check", "--time=10", "--no-requeue"]
    # Slurm starts no job whose output it cannot write; the probe says better what is wrong with the folder.
    there = shlex.quote(str(folder))
    script = f"[ -w {there} ] && exec >{there}/job.log 2>&1; exec {shlex.join(command)}"
    number = sbatch([*words, "--output=/dev/null", f"--wrap={script}"])
    until, told = time.monotonic() + seconds, ""
    last: Job | None = None
    try:
        while (now := job(number)) is not None:
            last = now
            waits = now.state in ("PENDING", "CONFIGURING")
            why = f" ({now.reason})" if waits and now.reason != "None" else f" on {now.nodes}" if now.nodes else ""
            if (line := f"job {number}: {now.state}{why}") != told:
                report.note(told := line)
            if waits and (now.reason in _FOR_EVER or time.monotonic() > until):
                report.bad(
                    f"the job does not begin: {now.state} ({now.reason}), which is Slurm's word; it was taken back",
                    _FOR_EVER.get(now.reason, "wait longer (--wait SECONDS), or see 'sinfo' for nodes that are down"),
                )
                return None
            if (folder / "node.json").exists():
                break
            time.sleep(_POLL_SECONDS)
    finally:
        if job(number) is not None:
            cancel([number])
    return f"job {number}{f' on {last.nodes}' if last and last.nodes else ''}"


@contextmanager
def _listening() -> Iterator[tuple[int, list[str]]]:
    """A port of this machine on which a probe is greeted, and what probes sent there."""
    answers: list[str] = []
    with socket.create_server(("", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.settimeout(_SECONDS_FOR_FILES)
                    connection.sendall(GREETING)
                    with connection.makefile("rb") as sent:
                        answers.append(sent.read().decode())

        thread = threading.Thread(target=serve, name="fedhpc site check", daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], answers
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _found(folder: Path, answers: list[str]) -> dict[str, Any] | None:
    """What the probe found; waits a moment for the file system to show it."""
    until = time.monotonic() + _SECONDS_FOR_FILES
    while time.monotonic() < until:
        for text in filter(None, answers):
            return dict(json.loads(text))
        if (folder / "node.json").exists():
            return dict(json.loads((folder / "node.json").read_text(encoding="utf-8")))
        if _last_lines(folder / "job.log"):
            until = min(until, time.monotonic() + 5 * _POLL_SECONDS)
        time.sleep(_POLL_SECONDS / 4)
    return None


def _last_lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(errors="replace").splitlines() if line.strip()][-_TAIL:]
    except OSError:
        return []


def _folder(found: Mapping[str, Any], site: Site, folder: Path, report: _Report) -> None:
    files, host = found["files"], found["node"]
    mend = (
        "results must lie on a file system that login and compute nodes share and may write to; give another --output"
    )
    if "error" in files:
        report.bad(f"{host} cannot use {folder.parent}: {files['error']}", mend)
        return
    seen = _within(_SECONDS_FOR_FILES, lambda: (folder / "from_node").read_text(encoding="utf-8"))
    if files["read"] != socket.gethostname() or seen != found["host"]:
        report.bad(f"{host} and this machine do not see each other's files in {folder.parent}", mend)
        return
    links = "with hard links" if files["links"] else "without hard links, which leases can do without"
    report.ok(f"{host} reads, writes and renames in {folder.parent}, {links}")


def _lease(found: Mapping[str, Any], site: Site, folder: Path, report: _Report) -> None:
    lease, host = found["lease"], found["node"]
    mend = (
        f"a sweep is taken for dead where its heartbeat is {PATIENCE_SECONDS:.0f} s old; put results on another file "
        "system (--output), or have the machines' clocks set"
    )
    if "error" in lease:
        report.bad(f"the lease of this machine is not seen on {host}: {lease['error']}", mend)
    elif abs(lease["behind"]) > _SECONDS_OF_CLOCKS:
        report.bad(f"on {host} the lease's heartbeat was {lease['behind']:+.1f} s old when it was seen", mend)
    else:
        report.ok(f"the lease of this machine is seen on {host}, its heartbeat {lease['behind']:.2f} s old when new")


def _address(found: Mapping[str, Any], site: Site, folder: Path, report: _Report) -> None:
    address, host = found["address"], found["node"]
    if "error" not in address:
        report.ok(f"{host} reaches this machine within {1000 * address['seconds']:.0f} ms")
    elif site.slurm is not None and site.slurm.way == "allocation":
        report.ok(f"{host} does not reach this machine, and need not: the sweep lives within its allocation")
    else:
        report.bad(
            f"{host} does not reach this machine: {address['error']}",
            "slurm.interface: name the network that compute nodes reach ('ip address' lists them), or say "
            "'way: allocation'",
        )


def _python(found: Mapping[str, Any], site: Site, folder: Path, report: _Report) -> None:
    there, here = dict(found["python"]), python_here()
    prefix, machine = there.pop("prefix"), there.pop("machine")
    differs = [f"{name} {there[name]} there, {here[name]} here" for name in there if there[name] != here[name]]
    if differs:
        report.bad(
            f"{found['node']} has another environment, {prefix}: {'; '.join(differs)}",
            f"make it anew on a {machine} machine: bash jobs/prepare.sh --site {site.file or 'local'}",
        )
    else:
        report.ok(f"the environment is the same on {found['node']} ({machine}): {prefix}, Python {there['python']}")


def _node(found: Mapping[str, Any], site: Site, folder: Path, report: _Report) -> None:
    cores, gpus = found["cores"], len(found["gpus"])
    if site.cores is not None and cores < site.cores:
        report.bad(
            f"a job sees {cores} cores of {found['node']}, and the site says {site.cores}",
            "lower cores, or ask for all of a node in slurm.options (--exclusive, or --cpus-per-task)",
        )
    else:
        report.ok(f"a job sees {cores} cores of {found['node']}; the site counts {site.cores or 'all of them'}")
    if site.slurm is None:
        return  # what torch sees is all that is known of GPUs
    if gpus < site.gpus:
        report.bad(
            f"a job sees {gpus} GPUs of {found['node']}, and the site says {site.gpus}",
            f"ask for them in slurm.options (--gpus-per-node={site.gpus}), or lower gpus",
        )
    elif site.gpus:
        report.ok(f"a job sees {gpus} GPUs of {found['node']}; the site counts {site.gpus}")


def _ranks(found: Mapping[str, Any], site: Site, folder: Path, report: _Report) -> None:
    told = found["ranks"]
    if "error" in found["files"]:
        return  # told already; they write there
    command = shlex.join(told.get("launcher", []))
    if "error" in told:
        by_launcher = f"the ranks did not start ({command})" if command else "no ranks were started"
        report.bad(f"{by_launcher}: {told['error']}", _NO_MPI if command else "mend the site's launcher or its numbers")
        return
    views = told["ranks"]
    if len(views) != site.ranks_per_run:
        report.bad(f"{site.ranks_per_run} ranks were started ({command}), and MPI sees {len(views)}", _NO_MPI)
        return
    nodes = list(dict.fromkeys(view["node"] or view["host"] for view in views))
    if len(nodes) != site.nodes_per_run:
        report.bad(
            f"{len(views)} ranks are on {', '.join(nodes)}, and nodes_per_run says {site.nodes_per_run}",
            "launcher: leave out what places ranks (--nodes, --nodelist, --ntasks-per-node); fedhpc says it",
        )
    report.ok(f"{len(views)} ranks on {', '.join(nodes)} by {command}")
    report.ok(
        f"MPI: {told['library']}; {1e6 * told['latency_seconds']:.1f} us one way, "
        f"{told['bytes_per_second'] / 1e9:.2f} GB/s in messages of 5 MB"
    )
    _torch(views, site, report)


def _torch(views: list[Mapping[str, Any]], site: Site, report: _Report) -> None:
    seconds = max(view["import_seconds"] for view in views)
    slow = "; that is long: a slurm.node_local spares the shared file system" if seconds > _SLOW_IMPORT_SECONDS else ""
    devices = views[0]["devices"]
    names = ", ".join(dict.fromkeys(devices))
    seen = f"{views[0]['cores']} cores, {f'{len(devices)} GPUs ({names})' if devices else 'no GPU'}"
    line = f"torch {views[0]['torch']}, imported within {seconds:.1f} s{slow}; a rank has {seen}"
    if len(devices) < site.gpus_per_rank:
        report.bad(
            line,
            "gpus_per_rank: torch must be one for the node's GPUs; with FEDHPC_ENVIRONMENT=site it is the cluster's "
            "own, from its module (setup)",
        )
    else:
        report.ok(line)


def _within(seconds: float, read: Callable[[], str]) -> str | None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            return read()
        except OSError:
            time.sleep(_POLL_SECONDS / 4)
    return None
