"""TFF's SQLite files: a table ``examples`` whose rows are a split, a client and a ``tf.train.Example``."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.naming import is_name, mistake
from fedhpc.data.sources.tff_proto import Feature, NotAnExample, example_features
from fedhpc.data.sources.tff_split import Field, Part, of_client
from fedhpc.mistakes import ExperimentError

_COLUMNS = ("split_name", "client_id", "serialized_example_proto")


@contextmanager
def open_sqlite_split(path: Path, key: str, split: str) -> Iterator["SQLiteSplit"]:
    """One split of the file. Raises ExperimentError where it is no such file, or has no such split."""
    try:
        # Immutable: nothing is locked, so that a read-only file system will do.
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        with closing(connection):
            yield SQLiteSplit(path, key, connection, split)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise mistake(path, key, f"the file cannot be read as SQLite: {error}") from None


class SQLiteSplit:
    """See Split. The table is read from its beginning to its end, whatever the order of its clients and whether it has
    an index or not."""

    def __init__(self, path: Path, key: str, connection: sqlite3.Connection, split: str) -> None:
        self.path, self.key, self._connection, self._split = path, key, connection, split
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [row[1] for row in connection.execute("PRAGMA table_info(examples)")]
        if "examples" not in tables or not set(_COLUMNS) <= set(columns):
            has = (
                f"the table 'examples' has {', '.join(columns)}" if columns else f"it has {', '.join(tables) or 'none'}"
            )
            raise mistake(path, key, f"the file has no table 'examples' with {', '.join(_COLUMNS)}; {has}")
        query = "SELECT client_id, COUNT(*) FROM examples WHERE split_name = ? GROUP BY client_id"
        counts = dict(connection.execute(query, [split]))
        if not counts:
            raise mistake(path, key, f"the table 'examples' has no row whose split_name is '{split}'")
        unnamed = [client for client in counts if not isinstance(client, str) or not is_name(client)]
        if unnamed:
            raise mistake(path, key, f"the client_id {unnamed[0]!r} is no text")
        self.clients = sorted(counts)
        self.counts = np.array([counts[client] for client in self.clients], np.int64)

    def parts(self, fields: Sequence[Field], chosen: NDArray[np.int64]) -> Iterator[Part]:
        following = dict(zip(self.clients, (np.cumsum(self.counts) - self.counts).tolist(), strict=True))
        place_of = np.full(self.counts.sum(), -1)
        place_of[chosen] = np.arange(len(chosen))
        query = "SELECT client_id, serialized_example_proto FROM examples WHERE split_name = ? ORDER BY rowid"
        for client, message in self._connection.execute(query, [self._split]):
            place = int(place_of[following[client]])
            following[client] += 1
            if place >= 0:
                features = self._features(client, message)
                columns = {field.name: self._values(client, field, features.get(field.name)) for field in fields}
                yield Part(client, slice(place, place + 1), columns)

    def _features(self, client: str, message: Any) -> dict[str, Feature]:
        if not isinstance(message, bytes):
            raise of_client(self, client, "an example is no bytes")
        try:
            return example_features(message)
        except NotAnExample as error:
            raise of_client(self, client, f"an example is no tf.train.Example: {error}") from None

    def _values(self, client: str, field: Field, feature: Feature | None) -> NDArray[Any] | list[bytes]:
        wrong = self._mistake_in(client, field, feature)
        if wrong is not None:
            raise wrong
        if isinstance(feature, np.ndarray):
            return feature.reshape(1, *field.shape)
        return feature or []

    def _mistake_in(self, client: str, field: Field, feature: Feature | None) -> ExperimentError | None:
        if feature is None:
            return of_client(self, client, f"an example has no '{field.name}'")
        kind = "text" if isinstance(feature, list) else "floats" if feature.dtype == np.float32 else "integers"
        wanted = int(np.prod(field.shape))
        if (kind, len(feature)) != (field.kind, wanted):
            return of_client(
                self, client, f"'{field.name}' of an example is {len(feature)} {kind}; it takes {wanted} {field.kind}"
            )
        return None
