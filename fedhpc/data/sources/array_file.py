"""HDF5 and NPZ files: named arrays, whose first dimension counts the examples."""

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.hdf5_elsewhere import ELSEWHERE, lies_elsewhere
from fedhpc.data.sources.naming import Named, check_columns, mistake
from fedhpc.data.sources.rows import Rows


@dataclass(frozen=True)
class Arrays:
    """An open file of arrays: their names, and how to read one."""

    path: Path
    names: list[str]
    read: Callable[[str], NDArray[Any]]

    def values(self, named: Named) -> NDArray[Any]:
        """The array, with text as strings. Raises ExperimentError where it holds objects or is damaged."""
        try:
            array = self.read(named.column)
        except Exception as error:  # a damaged archive makes zipfile and numpy raise almost anything
            if "allow_pickle" in str(error):
                raise mistake(
                    self.path, named.key, f"'{named.column}' is an array of Python objects; save numbers or strings"
                ) from None
            raise mistake(self.path, named.key, f"'{named.column}' cannot be read: {error}") from None
        if not isinstance(array, np.ndarray):
            raise mistake(self.path, named.key, f"'{named.column}' is no array")
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8", "replace")
        if array.dtype.kind not in "biufU" or array.ndim == 0:
            kind = "a single value" if array.ndim == 0 else f"of type {array.dtype}"
            raise mistake(self.path, named.key, f"'{named.column}' is {kind}; it takes an array of numbers or strings")
        return array


@contextmanager
def open_arrays(path: Path) -> Iterator[Arrays]:
    """The file, open for reading. Raises ExperimentError where it is damaged or of another format."""
    opened = _open_npz if path.suffix.lower() == ".npz" else _open_hdf5
    with opened(path) as arrays:
        yield arrays


@contextmanager
def _open_hdf5(path: Path) -> Iterator[Arrays]:
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        raise mistake(path, "path", f"the file cannot be read as HDF5: {error}") from None
    with file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)

        def read(name: str) -> NDArray[Any]:
            dataset = file[name]
            if lies_elsewhere(dataset, file):
                raise ValueError(f"it {ELSEWHERE}")
            if h5py.check_string_dtype(dataset.dtype) is None:
                return np.asarray(dataset[()])
            return np.asarray(dataset.asstr("utf-8", "replace")[()], str)

        yield Arrays(path, names, read)


@contextmanager
def _open_npz(path: Path) -> Iterator[Arrays]:
    try:
        file = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise mistake(path, "path", f"the file cannot be read as NPZ: {error}") from None
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise mistake(path, "path", "the file is a single array and no NPZ; write it with numpy.savez")
    with file:
        yield Arrays(path, list(file.files), lambda name: file[name])


def read_arrays(arrays: Arrays, features: Sequence[str], columns: Sequence[Named]) -> Rows:
    """The features side by side, and the other columns. Raises ExperimentError where an array is unknown, not of
    numbers, or of another length than the rest."""
    wanted = [Named("features", name) for name in features]
    check_columns([*wanted, *columns], arrays.names, arrays.path)
    parts = [arrays.values(name) for name in wanted]
    for name, part in zip(wanted, parts, strict=True):
        if part.dtype.kind == "U":
            raise mistake(arrays.path, "features", f"'{name.column}' holds text; features are numbers")
    others = {name.key: _column(arrays.values(name), name, arrays.path) for name in columns}
    first = wanted[0].column
    for name, part in zip([*wanted, *columns], [*parts, *others.values()], strict=True):
        if len(part) != len(parts[0]):
            raise mistake(
                arrays.path,
                name.key,
                f"the arrays are of unequal length: '{name.column}' has {len(part):,}, '{first}' {len(parts[0]):,}",
            )
    return Rows(_side_by_side(parts), others)


def _column(values: NDArray[Any], name: Named, path: Path) -> NDArray[Any]:
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        shape = "x".join(map(str, values.shape))
        raise mistake(path, name.key, f"'{name.column}' is of shape {shape}; it takes one value an example")
    return values


def _side_by_side(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if len(parts) == 1 and parts[0].ndim > 1:
        return parts[0]
    return np.concatenate([part.reshape(len(part), math.prod(part.shape[1:])) for part in parts], axis=1)
