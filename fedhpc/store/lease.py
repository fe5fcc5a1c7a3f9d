"""One owner (law 7): a sweep holds its results folder by a lease file, since no file locks can be trusted.

The file names its owner (a random token, host, boot, process) and carries a heartbeat. It changes by rename only, so
that it is always whole; that it is absent means that nobody holds the folder. Two takers at the same instant are
told apart by looking again shortly after; should a stalled one still write over a live lease, its former owner finds
out at its next heartbeat or check and ends, and results are the same bytes whoever writes them (laws 3 and 5).
"""

import errno
import json
import os
import re
import secrets
import socket
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from fedhpc.store.replacing import replacing, temporary_beside, told

BEAT_SECONDS = 5.0
PATIENCE_SECONDS = 30.0
_SECOND_LOOK_SECONDS = 0.2
_SECONDS_BETWEEN_LOOKS = 0.5
_STALE_READS = 3


class LeaseHeld(Exception):
    """A live sweep holds the folder."""


class LeaseLost(Exception):
    """The folder is no longer held by this sweep."""


@dataclass(frozen=True)
class _Owner:
    """``boot`` names the kernel's boot and the process namespace, within which ``pid`` and its start time (clock
    ticks since boot) name one process for ever. ``heartbeat`` is in Unix seconds. ``ending``: it was asked to stop.
    ``job``: the Slurm job that it lives in, or nothing."""

    token: str
    host: str
    boot: str
    pid: int
    started: int
    heartbeat: float
    ending: bool = False
    job: str = ""


class Lease:
    """A held lease. As a context manager it beats every few seconds, and is released at the end."""

    def __init__(self, file: Path, owner: _Owner) -> None:
        self._file = file
        self._owner = owner
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_stopped, name="fedhpc lease", daemon=True)

    @property
    def token(self) -> str:
        """What the runs of this sweep are handed, to call ``check_lease`` with."""
        return self._owner.token

    def beat(self) -> None:
        """Renews the heartbeat. Raises LeaseLost where the lease is another's or gone, and leaves it so."""
        with self._lock:
            check_lease(self._file.parent, self.token)
            _put(self._file, replace(self._owner, heartbeat=time.time()))

    def end(self) -> None:
        """Tells whatever this sweep started to stop in order: it finds ``is_ending`` true, writes what it needs to go
        on, and ends. Raises LeaseLost as ``beat`` does."""
        self._owner = replace(self._owner, ending=True)
        self.beat()

    def release(self) -> None:
        """Gives the folder up, if it is still held."""
        with self._lock:
            owner = _read(self._file)
            if owner is not None and owner.token == self.token:
                self._file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.release()

    def _beat_until_stopped(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            try:
                self.beat()
            except LeaseLost:
                return
            except OSError:
                # A full or absent file system for a moment is no loss; patience outlasts several heartbeats.
                continue


def take_lease(folder: Path, patience: float = PATIENCE_SECONDS) -> Lease:
    """Takes the results folder, making it where it is missing.

    A lease that was released, or whose owner is dead, is taken over: an owner on this machine is dead when its
    process is gone, one elsewhere when its heartbeat is older than ``patience`` seconds.

    Raises LeaseHeld, in a sentence that names the owner and the mend, and NotWritable where the disk is full or
    read-only, or something is in the way.
    """
    file = _file(folder)
    mine = _Owner(
        secrets.token_hex(16),
        socket.gethostname(),
        _boot(),
        os.getpid(),
        _started(os.getpid()),
        time.time(),
        job=os.environ.get("SLURM_JOB_ID", ""),
    )
    with told(file):
        folder.mkdir(parents=True, exist_ok=True)
        owner = _read(file)
        if owner is not None and _is_alive(owner, patience):
            raise LeaseHeld(_held(folder, owner, patience))
        taken = _created(file, mine) if owner is None else _inherited(file, owner, mine, patience)
    if not taken:
        raise LeaseHeld(_held(folder, _read(file), patience))
    time.sleep(_SECOND_LOOK_SECONDS)
    owner = _read(file)
    if owner is None or owner.token != mine.token:
        raise LeaseHeld(_held(folder, owner, patience))
    return Lease(file, mine)


def outlast(folder: Path, patience: float = PATIENCE_SECONDS) -> None:
    """Returns once it is known whether a folder's owner on another machine lives: at its next heartbeat, or when it was
    silent for ``patience`` seconds, as after a lost node; at once where there is no such owner."""
    first = _read(_file(folder))
    if first is None or _is_of_this_boot(first):
        return
    while _is_alive(first, patience) and _read(_file(folder)) == first:
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def check_lease(folder: Path, token: str) -> None:
    """For whatever a sweep started: raises LeaseLost unless the folder is still held under this token."""
    _held_under(folder, token)


def is_ending(folder: Path, token: str) -> bool:
    """Whether the sweep that holds the folder under this token was asked to stop, so that what it started is to stop
    too. Raises LeaseLost as ``check_lease`` does."""
    return _held_under(folder, token).ending


def live_owner(folder: Path, patience: float = PATIENCE_SECONDS) -> str | None:
    """Who holds the folder and what others may do, as ``LeaseHeld`` says it; None where no live sweep does."""
    owner = _read(_file(folder))
    return _held(folder, owner, patience) if owner is not None and _is_alive(owner, patience) else None


def _held_under(folder: Path, token: str) -> _Owner:
    owner = _read(_file(folder))
    if owner is None:
        raise LeaseLost(f"{folder}: the sweep that started this has ended or was stopped, so that this ends too")
    if owner.token != token:
        raise LeaseLost(
            f"{folder}: another sweep (process {owner.pid} on {owner.host}) has taken this folder over, so that what "
            "an earlier one started ends here"
        )
    return owner


def heartbeat(folder: Path) -> float | None:
    """When the folder's owner last said that it lives, in Unix seconds by its own clock; None where nobody has it."""
    owner = _read(_file(folder))
    return None if owner is None else owner.heartbeat


def _file(folder: Path) -> Path:
    return folder / "lease.json"


def _read(file: Path) -> _Owner | None:
    for look in range(_STALE_READS):
        try:
            content, changed = file.read_text(encoding="utf-8", errors="replace"), file.stat().st_mtime
            break
        except (FileNotFoundError, IsADirectoryError):  # a folder of that name is nobody's lease
            return None
        except OSError as error:
            # NFS, where the file was renamed over between opening and reading.
            if error.errno != errno.ESTALE or look == _STALE_READS - 1:
                raise
    try:
        held = json.loads(content)
        if not re.fullmatch(r"[0-9a-f]{32}", str(held["token"])):
            raise ValueError
        return _Owner(
            str(held["token"]),
            str(held["host"]),
            str(held["boot"]),
            int(held["pid"]),
            int(held["started"]),
            float(held["heartbeat"]),
            held.get("ending") is True,
            str(held.get("job", "")),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        # Not this version's lease. Somebody's all the same, as long as it is young.
        return _Owner("", "", "", 0, 0, changed)


def _put(file: Path, owner: _Owner) -> None:
    with replacing(file, durable=False) as temporary:
        temporary.write_text(_text(owner), encoding="utf-8")


def _created(file: Path, owner: _Owner) -> bool:
    """Puts a first lease there; of several takers at once, one succeeds."""
    temporary = temporary_beside(file)
    try:
        temporary.write_text(_text(owner), encoding="utf-8")
        os.link(temporary, file)
    except FileExistsError:
        if file.is_dir():
            raise
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        # A file system without hard links: the second look decides.
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _inherited(file: Path, dead: _Owner, heir: _Owner, patience: float) -> bool:
    """Replaces a dead owner's lease; of several heirs at once, the one that links the claim succeeds."""
    claim = file.with_name(f"{file.name}.tmp.heir-of-{dead.token}")
    rival = _read(claim)
    if rival is not None and not _is_alive(rival, patience):
        claim.unlink(missing_ok=True)
    if not _created(claim, heir):
        return False
    try:
        # A slow heir may find the inheritance, claim and all, dealt with.
        owner = _read(file)
        if owner is None or owner.token != dead.token:
            return False
        _put(file, heir)
        return True
    finally:
        claim.unlink(missing_ok=True)


def _text(owner: _Owner) -> str:
    return json.dumps(asdict(owner)) + "\n"


def _is_alive(owner: _Owner, patience: float) -> bool:
    if _is_of_this_boot(owner):
        return owner.started == _started(owner.pid)
    # A heartbeat from far in the future is no sign of life either.
    return abs(time.time() - owner.heartbeat) <= patience


def _is_of_this_boot(owner: _Owner) -> bool:
    return owner.boot != "" and owner.boot == _boot() and owner.host == socket.gethostname()


def _boot() -> str:
    """This boot and process namespace; empty where the system does not tell, so that only heartbeats count."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> int:
    """The process's start time in clock ticks since boot; -1 for one that is gone or a zombie."""
    try:
        # The name, in parentheses, may hold anything; state and start time are fields 3 and 22 (proc(5)).
        after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if after_name[0] in "ZX" else int(after_name[19])


def _held(folder: Path, owner: _Owner | None, patience: float) -> str:
    if owner is None or not _is_alive(owner, patience):
        return f"{folder}: another sweep took or gave up this folder at the same moment; start again"
    age = f"last heartbeat {max(0.0, time.time() - owner.heartbeat):.0f} s ago"
    if owner.pid == 0:
        return (
            f"{folder}: a lease that this version of fedhpc cannot read holds this folder ({age}); take another folder "
            f"with --output, or delete {_file(folder)} once no sweep is at work there"
        )
    sweep = "a sweep that is stopping" if owner.ending else "a sweep"
    place = f"Slurm job {owner.job}" if owner.job else f"process {owner.pid}"
    held = f"{folder}: {sweep} holds this folder ({place} on {owner.host}, {age})"
    here = _is_of_this_boot(owner)
    stop = f"stop it with `scancel {owner.job}`" if owner.job else f"stop it with `kill {owner.pid}`"
    there = "" if here or owner.job else " there"
    held = f"{held}; wait for its end, {stop}{there}, or take another folder with --output"
    if here:
        return held
    return f"{held}; if it died, this folder is free {patience:.0f} s after its last heartbeat"
