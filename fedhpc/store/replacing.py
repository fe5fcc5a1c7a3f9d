"""Finished or absent (law 5): a file appears under its name by a rename, when it is complete."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

_numbers = count()


def temporary_beside(path: Path) -> Path:
    """A name that no other process or thread uses: ``NAME.tmp.<host>.<pid>.<n>``."""
    return path.with_name(f"{path.name}.tmp.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}")


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """Gives a temporary name beside ``path`` to write to; at the end that file takes ``path``'s place.

    Where the block raises, ``path`` stays as it was and nothing is left beside it. ``durable`` files outlast a power
    cut; what is rewritten every few seconds need not.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        yield temporary
        if durable:
            sync(temporary)
        os.replace(temporary, path)
    except BaseException:
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
