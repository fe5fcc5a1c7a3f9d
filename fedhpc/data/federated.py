"""A federated data set: every client's examples in one array, client after client."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedhpc.federation.population import Population


@dataclass(frozen=True)
class FederatedData:
    """Client c owns rows ``offsets[c]:offsets[c + 1]`` of ``features`` and ``labels``; it may own none.

    ``features``: float32 [examples, *shape]. ``labels``: int64 [examples], in 0..classes-1; of tokens or voxels
    [examples, *places], and -1 where there is none. ``offsets``: int64 [clients + 1]. ``stragglers``: bool [clients].
    ``straggler_classes``: int64 [k], empty where there are none. ``test_features``, ``test_labels``: the held-out
    examples, alike. ``taken_away``: how many training examples of straggler classes others than straggler clients had,
    and lost; None where that was not written down. ``client_names``: [clients]. ``class_names``: [classes], what the
    data call the labels. ``words``: where features are numbers of words, what each stands for; else empty.
    ``unscored``: int64 [k], classes that accuracy leaves out. ``test_tagged``: bool [held-out examples], those that
    bear a straggler tag; None where the task asks for none. Arrays mapped from a file are copy-on-write: nothing
    written to them reaches the file.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    offsets: NDArray[np.int64]
    stragglers: NDArray[np.bool_]
    straggler_classes: NDArray[np.int64]
    test_features: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    classes: int
    client_names: tuple[str, ...]
    class_names: tuple[str, ...]
    words: tuple[str, ...] = ()
    unscored: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    test_tagged: NDArray[np.bool_] | None = None
    taken_away: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """One example's shape."""
        return self.features.shape[1:]

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """How many training examples of which class a client has, int64 [clients, classes]. Only for one label an
        example: of tokens and voxels it would say nothing of examples."""
        assert self.labels.ndim == 1
        clients = len(self.offsets) - 1
        owner = np.repeat(np.arange(clients), np.diff(self.offsets))
        counts = np.bincount(owner * self.classes + self.labels, minlength=clients * self.classes)
        return counts.reshape(clients, self.classes)

    @property
    def population(self) -> Population:
        """The clients as the scheduler sees them."""
        return Population(np.diff(self.offsets), self.stragglers)


MAPPED = ("features", "labels", "test_features", "test_labels")
"""The arrays that are mapped into memory; a prepared file keeps each whole and uncompressed."""

WORDS = "words"
"""The words that features are numbers of; a prepared file has them where they are."""


def open_prepared(path: Path) -> FederatedData:
    """The data that ``prepare`` wrote. Examples are mapped, so that the ranks of a node share them and nothing is read
    before it is used. Raises OSError where the file is missing or damaged."""
    with h5py.File(path, "r", locking=False) as file:
        return FederatedData(
            **{name: _mapped(path, file[name]) for name in MAPPED},
            offsets=file["offsets"][()],
            stragglers=file["stragglers"][()],
            straggler_classes=file["straggler_classes"][()],
            classes=len(file["class_names"]),
            client_names=_names(file["client_names"]),
            class_names=_names(file["class_names"]),
            words=_names(file[WORDS]) if WORDS in file else (),
            unscored=file["unscored"][()] if "unscored" in file else np.empty(0, np.int64),
            test_tagged=file["test_tagged"][()] if "test_tagged" in file else None,
            taken_away=int(file.attrs["taken_away"]) if "taken_away" in file.attrs else None,
        )


def open_population(path: Path) -> Population:
    """The population of a prepared file, without its examples."""
    with h5py.File(path, "r", locking=False) as file:
        return Population(np.diff(file["offsets"][()]), file["stragglers"][()])


def open_shape(path: Path) -> tuple[tuple[int, ...], int, int]:
    """One example's shape, the number of classes and that of words in a prepared file."""
    with h5py.File(path, "r", locking=False) as file:
        words = len(file[WORDS]) if WORDS in file else 0
        return file["features"].shape[1:], len(file["class_names"]), words


def _mapped(path: Path, dataset: Any) -> NDArray[Any]:
    offset = dataset.id.get_offset()
    if offset is None:  # HDF5 gives an empty array no place in the file.
        return np.empty(dataset.shape, dataset.dtype)
    mapped = np.memmap(path, dataset.dtype, "c", offset, dataset.shape)
    # A plain view: numpy handles every slice of its memmap class more slowly.
    return mapped.view(np.ndarray)


def _names(dataset: Any) -> tuple[str, ...]:
    return tuple(np.char.decode(dataset[()], "utf-8").tolist())
