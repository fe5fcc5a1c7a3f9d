"""Where a data file named in an experiment lies."""

import hashlib
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from fedhpc.data.catalogue import data_set, data_set_at
from fedhpc.data.remembered import remember, remembered
from fedhpc.mistakes import ExperimentError

VARIABLE = "FEDHPC_DATA"
"""The environment variable that names the folder of data sets."""

_LARGE, _MANY = 2**26, 1000
"""Bytes, or files, that take a noticeable time to hash: half a tenth of a second."""

_TICK = 2 * 10**9
"""ns; of the coarsest file systems' clocks."""


class DataMissing(ExperimentError):
    """A data file that is not there, and may still be fetched."""


def data_folder() -> Path | None:
    """FEDHPC_DATA's folder; None where it is not set."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def find_data(path: Path, base: Path, key: str = "task.data.path") -> Path:
    """The file or folder at ``path``: relative to ``base`` (the experiment file's folder), then to FEDHPC_DATA's
    folder. ``key`` is the path's key in the experiment.

    Raises DataMissing where it is in neither.
    """
    path = path.expanduser()
    named = data_folder()
    folders = [base] if named is None else [base, named]
    for folder in folders:
        if (folder / path).exists():
            return folder / path
    if path.is_absolute():
        raise DataMissing(base, [f"{key}: there is no {path}"])
    looked = [f"in {folders[0].absolute()}"]
    looked.append(f"in {VARIABLE}={folders[1]}" if len(folders) > 1 else f"nowhere else, since {VARIABLE} is not set")
    told = f"{key}: there is no file '{path}'; looked {' and '.join(looked)}"
    if (known := data_set_at(path)) is not None:
        told += f"; {_to_have(known)}"
    raise DataMissing(base, [told])


def _to_have(name: str) -> str:
    """How a data set of the catalogue is had."""
    known = data_set(name)
    if known.files:
        return f"fetch it with `fedhpc data fetch {name}`"
    mend = f"`fedhpc data fetch {name}` says how it is had"
    if known.instead:
        mend += f", and which task.data to write to have {' or '.join(known.instead)} in its place"
    return mend


def content_of(path: Path) -> str:
    """A file's SHA-256; of a folder, that of its files' names and contents. Raises OSError where one cannot be read.

    Nothing is hashed twice in a process, and what is large not in the next one either, while sizes and times of change
    stay the same.
    """
    return _content(path, _files(path))


class _File(NamedTuple):
    """A file: its path relative to the folder that was named, in the order of folders; its size in bytes, and when its
    content and its status last changed, in ns. Who copies a file with its time of change changes its status."""

    parts: tuple[str, ...]
    size: int
    modified: int
    changed: int


def _files(path: Path) -> tuple[_File, ...]:
    """A file alone, or all below a folder."""
    if not path.is_dir():
        return (_file(path, ()),)
    found = []
    for folder, _, names in os.walk(path):
        within = Path(folder).relative_to(path).parts
        found += [_file(os.path.join(folder, name), (*within, name)) for name in names if _is_file(folder, name)]
    return tuple(sorted(found))


def _is_file(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def _file(path: str | Path, parts: tuple[str, ...]) -> _File:
    status = os.stat(path)
    return _File(parts, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=8)
def _content(path: Path, files: tuple[_File, ...]) -> str:
    is_large = sum(file.size for file in files) >= _LARGE or len(files) >= _MANY
    if not is_large:
        return _hashed(path, files)
    stamp = hashlib.sha256(repr([tuple(file) for file in files]).encode("utf-8", "surrogatepass")).hexdigest()
    content = remembered(path, stamp)
    if content is None:
        begun = time.time_ns()
        content = _hashed(path, files)
        # What changed a moment ago may change again within one tick of the file system's clock.
        settled = all(max(file.modified, file.changed) < begun - _TICK for file in files)
        if settled and _files(path) == files:
            remember(path, stamp, content)
    return content


def _hashed(path: Path, files: tuple[_File, ...]) -> str:
    if len(files) == 1 and not files[0].parts:
        return _sha256(path)
    listed = "".join(f"{'/'.join(file.parts)} {_sha256(path.joinpath(*file.parts))}\n" for file in files)
    return "sha256:" + hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
