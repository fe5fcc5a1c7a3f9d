"""Where a data file named in an experiment lies."""

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from fedhpc.mistakes import ExperimentError

VARIABLE = "FEDHPC_DATA"
"""The environment variable that names the folder of data sets."""


class DataMissing(ExperimentError):
    """A data file that is not there, and may still be fetched."""


def find_data(path: Path, base: Path, key: str = "task.data.path") -> Path:
    """The file at ``path``: relative to ``base`` (the experiment file's folder), then to FEDHPC_DATA's folder. ``key``
    is the path's key in the experiment.

    Raises DataMissing where it is in neither.
    """
    path = path.expanduser()
    folders = [base, *([Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else [])]
    for folder in folders:
        if (folder / path).is_file():
            return folder / path
    if path.is_absolute():
        raise DataMissing(base, [f"{key}: there is no file {path}"])
    looked = [f"in {folders[0].absolute()}"]
    looked.append(f"in {VARIABLE}={folders[1]}" if len(folders) > 1 else f"nowhere else, since {VARIABLE} is not set")
    raise DataMissing(base, [f"{key}: there is no file '{path}'; looked {' and '.join(looked)}"])


def content_of(path: Path) -> str:
    """The file's SHA-256. Raises OSError where it cannot be read."""
    status = path.stat()
    return _content(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _content(path: Path, size: int, modified: int) -> str:
    """Size and time of change keep a file that was written anew from being taken for the old."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
