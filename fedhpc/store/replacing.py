"""Finished or absent (law 5): a file appears under its name by a rename, when it is complete."""

import errno
import glob
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from fedhpc.processes import is_alive

_numbers = count()
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
OF_THE_DISK = (*_NO_ROOM, errno.EROFS, errno.EACCES)
"""The errors of a file system that a person can mend."""
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


class NotWritable(OSError):
    """A file could not be written, for want of room or of the right to, or since something else is where it or its
    folder should be; it is as it was before."""

    def __str__(self) -> str:
        mend = "make room" if self.errno in _NO_ROOM else "make its folder writable"
        if self.errno in _IN_THE_WAY:
            mend = "move what is in the place of it or of its folder"
        return f"{self.filename} cannot be written: {self.strerror}; {mend}, and the same command goes on"


def temporary_beside(path: Path) -> Path:
    """A name that no other process or thread uses: ``NAME.tmp.<host>.<processes' namespace>.<pid>.<n>``."""
    return path.with_name(f"{path.name}.tmp.{_here()}.{os.getpid()}.{next(_numbers)}")


def forget_unfinished(path: Path) -> None:
    """Removes what processes of this host that were killed have left beside ``path``, be it as large as data are."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.tmp.{glob.escape(_here())}.*.*"):
        process = left.name.split(".")[-2]
        if process.isdecimal() and not is_alive(int(process)):
            left.unlink(missing_ok=True)


def _here() -> str:
    """Where a process's number says which one it is: two containers of a host may have the same."""
    try:
        return f"{socket.gethostname()}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"{socket.gethostname()}.0"


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Within, what keeps ``path`` from being written is raised as NotWritable where a person can mend it."""
    try:
        yield
    except OSError as error:
        if error.errno not in (*OF_THE_DISK, *_IN_THE_WAY):
            raise
        raise NotWritable(error.errno, os.strerror(error.errno), str(path)) from error


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """Gives a temporary name beside ``path`` to write to; at the end that file takes ``path``'s place.

    Where the block raises, ``path`` stays as it was and nothing is left beside it. ``durable`` files outlast a power
    cut, and take away what killed processes have left; what is rewritten every few seconds need not.

    Raises NotWritable where the file system is full or forbids it, or something is in the way, and other OSErrors as
    they come.
    """
    temporary = temporary_beside(path)
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if durable:
            forget_unfinished(path)
        try:
            yield temporary
            if durable:
                sync(temporary)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # a file system may have become read-only
                temporary.unlink(missing_ok=True)
            raise
        if durable:
            sync(path.parent)


def sync(path: Path) -> None:
    """What the file or folder holds outlasts a power cut from now on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
