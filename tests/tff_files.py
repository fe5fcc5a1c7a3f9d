"""Small files in TFF's two formats, for tests: HDF5, and SQLite of tf.train.Example as the wire format has it."""

import sqlite3
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Client = Mapping[str, Any]
"""Arrays by field, a row an example."""


def write_hdf5(path: Path, clients: Mapping[str, Client]) -> None:
    with h5py.File(path, "w") as file:
        for client, fields in clients.items():
            group = file.create_group(f"examples/{client}")
            for name, values in fields.items():
                text = h5py.string_dtype() if isinstance(values, list) else None
                group.create_dataset(name, data=values, dtype=text)


def write_sqlite(path: Path, splits: Mapping[str, Mapping[str, Client]]) -> None:
    """The clients' rows in turns, so that none stands together."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
        rows = [
            (turn, split, client, message)
            for split, clients in splits.items()
            for client, fields in clients.items()
            for turn, message in enumerate(_messages(fields))
        ]
        for _, split, client, message in sorted(rows, key=lambda row: row[0]):
            connection.execute("INSERT INTO examples VALUES (?, ?, ?)", (split, client, message))
    connection.close()


def _messages(fields: Client) -> list[bytes]:
    rows = zip(*fields.values(), strict=True)
    return [encoded({name: _values(value) for name, value in zip(fields, row, strict=True)}, True) for row in rows]


def _values(value: Any) -> list[Any]:
    return (
        [value.encode()]
        if isinstance(value, str)
        else [value]
        if isinstance(value, bytes)
        else np.ravel(value).tolist()
    )


def encoded(features: Mapping[str, list[Any]], packed: bool) -> bytes:
    """A tf.train.Example: lists of bytes, of int or of float."""
    entries = b""
    for name, values in features.items():
        entries += field(1, 2, field(1, 2, name.encode()) + field(2, 2, field(*_list(values, packed))))
    return field(1, 2, entries)


def _list(values: list[Any], packed: bool) -> tuple[int, int, bytes]:
    if all(isinstance(value, bytes) for value in values):
        return 1, 2, b"".join(field(1, 2, value) for value in values)
    if all(isinstance(value, int) for value in values):
        parts = [varint(value & (2**64 - 1)) for value in values]
        number, wire_type = 3, 0
    else:
        parts = [struct.pack("<f", value) for value in values]
        number, wire_type = 2, 5
    return number, 2, field(1, 2, b"".join(parts)) if packed else b"".join(field(1, wire_type, part) for part in parts)


def field(number: int, wire_type: int, content: bytes) -> bytes:
    """A field as it lies in a message; the content of a varint is its bytes."""
    head = varint(number << 3 | wire_type)
    return head + (varint(len(content)) if wire_type == 2 else b"") + content


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])
