"""Where a data file named in an experiment lies."""

import os
from pathlib import Path

from fedhpc.mistakes import ExperimentError

VARIABLE = "FEDHPC_DATA"
"""The environment variable that names the folder of data sets."""


class DataMissing(ExperimentError):
    """A data file that is not there, and may still be fetched."""


def find_data(path: Path, base: Path, key: str = "task.data.path") -> Path:
    """The file at ``path``: relative to ``base`` (the experiment file's folder), then to FEDHPC_DATA's folder. ``key``
    is the one that names it.

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
