"""TFF's HDF5 files: ``examples/<client>/<field>``, an array of the client's rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.hdf5_elsewhere import ELSEWHERE, lies_elsewhere
from fedhpc.data.sources.naming import is_name, mistake
from fedhpc.data.sources.tff_split import Field, Part, of_client

_KINDS = {"f": "floats", "i": "integers", "u": "integers"}


@contextmanager
def open_hdf5_split(path: Path, key: str, field: str) -> Iterator["HDF5Split"]:
    """The file, the rows of which are counted by ``field``. Raises ExperimentError where it is no such file."""
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        raise mistake(path, key, f"the file cannot be read as HDF5: {error}") from None
    with file:
        try:
            split = HDF5Split(path, key, file, field)
        except RuntimeError as error:  # h5py's, of a damaged group
            raise mistake(path, key, f"the file cannot be read as HDF5: {error}; fetch it anew") from None
        yield split


class HDF5Split:
    """See Split. Reads client by client."""

    def __init__(self, path: Path, key: str, file: Any, field: str) -> None:
        self.path, self.key = path, key
        examples = file.get("examples")
        if not isinstance(examples, h5py.Group) or not len(examples):
            raise mistake(path, key, "the file has no clients in a group 'examples'; it takes a file of TFF's")
        self._examples = examples
        unnamed = [client for client in examples if not isinstance(client, str) or not is_name(client)]
        if unnamed:
            raise mistake(path, key, f"the client {unnamed[0]!r} has no name in UTF-8")
        self.clients = sorted(examples)
        self.counts = np.array(
            [len(self._dataset(client, self._group(client), field)) for client in self.clients], np.int64
        )

    def parts(self, fields: Sequence[Field], chosen: NDArray[np.int64]) -> Iterator[Part]:
        ends = np.cumsum(self.counts)
        bounds = np.searchsorted(chosen, np.concatenate([[0], ends]))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            client, places = self.clients[number], slice(bounds[number], bounds[number + 1])
            rows = chosen[places] - (ends[number] - self.counts[number])
            group, count = self._group(client), int(self.counts[number])
            yield Part(
                client, places, {field.name: self._values(client, group, count, field, rows) for field in fields}
            )

    def _values(
        self, client: str, group: Any, count: int, field: Field, rows: NDArray[np.int64]
    ) -> NDArray[Any] | list[bytes]:
        dataset = self._dataset(client, group, field.name)
        is_text = h5py.check_string_dtype(dataset.dtype) is not None
        kind = "text" if is_text else _KINDS.get(dataset.dtype.kind, str(dataset.dtype))
        if (dataset.shape, kind) != ((count, *field.shape), field.kind):
            has = f"'{field.name}' is {kind} [{_shape(dataset.shape)}]"
            raise of_client(self, client, f"{has}; it takes {field.kind} [{_shape((count, *field.shape))}]")
        try:
            values: NDArray[Any] = dataset[rows[0] : rows[-1] + 1][rows - rows[0]]
        except Exception as error:  # a damaged file makes h5py raise almost anything
            raise of_client(self, client, f"'{field.name}' cannot be read: {error}") from None
        if field.kind != "text":
            return values
        texts: list[bytes] = values.tolist()
        return texts

    def _group(self, client: str) -> Any:
        return self._got(client, self._examples, client)

    def _dataset(self, client: str, group: Any, field: str) -> Any:
        dataset = self._got(client, group, field) if isinstance(group, h5py.Group) else None
        if not isinstance(dataset, h5py.Dataset) or not dataset.shape:
            raise of_client(self, client, f"it has no array '{field}'")
        if lies_elsewhere(dataset, self._examples):
            raise of_client(self, client, f"'{field}' {ELSEWHERE}")
        return dataset

    def _got(self, client: str, group: Any, name: str) -> Any:
        """What the group has under a name; None where it has nothing."""
        try:
            return group.get(name)
        except Exception as error:  # a damaged file makes h5py raise almost anything
            raise of_client(self, client, f"it cannot be read: {error}") from None


def _shape(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
