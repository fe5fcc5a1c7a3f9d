"""Files that a list names by their paths within a folder."""

import os
from collections.abc import Sequence
from pathlib import Path

from fedhpc.data.sources.naming import mistake


def inside(name: str) -> bool:
    """Whether a path is one within its folder: neither absolute nor leading out of it."""
    return not name.startswith("/") and ".." not in name.split("/") and "\0" not in name


def found_files(folder: Path, names: Sequence[str], at: Sequence[str], path: Path, key: str) -> list[str]:
    """The paths of the files that a list, the file at ``path`` of ``task.data.<key>``, names within ``folder``.
    ``at``: where in the list a name stands, as "line 7".

    Raises ExperimentError with the first name that leaves the folder or is not there.
    """
    files = []
    for name, place in zip(names, at, strict=True):
        if not inside(name):
            raise mistake(path, key, f"{place}: '{name}' leaves the folder; it takes a path within {folder}")
        file = os.path.join(folder, name)
        if not os.path.isfile(file):
            raise mistake(path, key, f"{place}: there is no file '{name}' in {folder}; fetch the data anew")
        files.append(file)
    return files
