"""What TFF's two file formats have in common: clients, each with rows of the same fields."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.naming import mistake
from fedhpc.mistakes import ExperimentError


class Field(NamedTuple):
    """A field that every example has: its name, what it holds (``text`` is bytes), and its shape in one example."""

    name: str
    kind: Literal["floats", "integers", "text"]
    shape: tuple[int, ...]


class Part(NamedTuple):
    """Some rows of one client: ``places`` are theirs among the rows that were chosen; ``columns``, by field, arrays
    [rows, *shape], and of text lists of bytes."""

    client: str
    places: slice
    columns: Mapping[str, Any]


class Split(Protocol):
    """One split of a file, open. Its rows count from 0, client after client, each one's in the file's order."""

    path: Path
    key: str
    """The file's key under ``task.data``."""
    clients: list[str]
    """In sorted order."""
    counts: NDArray[np.int64]
    """The clients' numbers of rows, [clients]."""

    def parts(self, fields: Sequence[Field], chosen: NDArray[np.int64]) -> Iterator[Part]:
        """The rows ``chosen`` (ascending), each once, in any order. Raises ExperimentError where one is not as the
        fields say."""


def of_client(split: Split, client: str, sentence: str) -> ExperimentError:
    """The error that something is wrong with what a client has."""
    return mistake(split.path, split.key, f"client '{client}': {sentence}")


def first_of_each(counts: NDArray[np.int64], kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first ``kept`` of every client's rows, both [clients]; ``counts`` are what the clients have."""
    starts = np.cumsum(counts) - counts
    before = np.cumsum(kept) - kept
    rows: NDArray[np.int64] = np.arange(kept.sum()) + np.repeat(starts - before, kept)
    return rows


def evenly_spread(total: int, wanted: int | None) -> NDArray[np.int64]:
    """``wanted`` of so many rows, or all where there are no more: the first, the last, and others evenly between."""
    if wanted is None or wanted >= total:
        return np.arange(total)
    return np.linspace(0, total - 1, wanted).astype(np.int64)
