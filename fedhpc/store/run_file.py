"""One result file a run: valid netCDF-4, there when it is complete and not before (law 5)."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import h5netcdf
import h5py
import numpy as np

from fedhpc.store.record import RunRecord
from fedhpc.store.replacing import replacing
from fedhpc.store.variables import CELL, INDEXES, VARIABLES


def write_run(path: Path, record: RunRecord) -> None:
    """Writes the record as ``path``, by a rename.

    Raises OSError where the disk is full or the folder cannot be written; ``path`` is then as it was before.
    """
    content = _netcdf(record)
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def finished_digest(path: Path) -> str | None:
    """The settings' digest of a result, or None where ``path`` is no complete result: missing, truncated, foreign."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            digest = file.attrs.get("digest")
            complete = all(name in file for name in (*CELL, *INDEXES))
    except (OSError, RuntimeError, KeyError, ValueError):
        return None
    return digest if complete and isinstance(digest, str) else None


def silos_lost(path: Path) -> list[tuple[str, float]]:
    """The silos that were given up in a result, by name, and the seconds when; none in virtual time. Raises OSError
    where there is no result."""
    with h5py.File(path, "r", locking=False) as file:
        lost = json.loads(file.attrs.get("silos_lost", "[]"))
    return [(name, second) for name, second in lost]


def wall_seconds(path: Path) -> float:
    """What the federation of a result took, without its ranks' start. Raises OSError where there is no result."""
    with h5py.File(path, "r", locking=False) as file:
        return float(np.ravel(file.attrs["wall_seconds"])[0])


def texts(path: Path, names: Sequence[str]) -> dict[str, str]:
    """These attributes of a result as texts, those that it has. Raises OSError where there is no result."""
    with h5py.File(path, "r", locking=False) as file:
        return {name: str(np.ravel(file.attrs[name])[0]) for name in names if name in file.attrs}


def variables_of(path: Path, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that a result has as variables. Raises OSError where there is no result."""
    with h5py.File(path, "r", locking=False) as file:
        return [name for name in names if name in file]


def last_values(path: Path, names: Sequence[str]) -> dict[str, float]:
    """These variables at a result's last evaluation. Raises OSError and KeyError where they are not there."""
    with h5py.File(path, "r", locking=False) as file:
        return {name: float(file[name][-1]) for name in names}


def _netcdf(record: RunRecord) -> memoryview:
    # Made in memory and written in one go: HDF5 then asks the file system for no locks, and a full disk is a plain
    # OSError rather than a half-closed HDF5 file.
    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        file.attrs.update(record.attributes)
        file.dimensions = record.lengths()
        for name, long_name in CELL.items():
            value = getattr(record, name)
            kind = h5py.string_dtype() if isinstance(value, str) else "int64"
            scalar = file.create_variable(
                name, (), kind, data=np.array(value, object if isinstance(value, str) else kind)
            )
            scalar.attrs["long_name"] = long_name
        for dimension, length in record.lengths().items():
            first, long_name = INDEXES[dimension]
            index = file.create_variable(dimension, (dimension,), "int64", data=np.arange(first, first + length))
            index.attrs.update({"units": "1", "long_name": long_name})
        for name, column in record.columns().items():
            entry = VARIABLES[name]
            variable = file.create_variable(name, (entry.dimension,), entry.dtype, data=column)
            variable.attrs.update({"units": entry.units, "long_name": entry.long_name})
            if not entry.coordinate:
                variable.attrs["coordinates"] = " ".join([*_times(entry.dimension), *CELL])
    return buffer.getbuffer()


def _times(dimension: str) -> list[str]:
    return [name for name, entry in VARIABLES.items() if entry.coordinate and entry.dimension == dimension]
