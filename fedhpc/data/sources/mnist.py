"""MNIST (LeCun et al. 1998), EMNIST (Cohen et al. 2017) and Fashion-MNIST (Xiao et al. 2017) as published, and the
writers of MNIST's digits, which QMNIST found (Yadav and Bottou 2019)."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import IDX
from fedhpc.data.sources.coding import codes
from fedhpc.data.sources.idx import EXTENDED_LABELS, LABELS, PICTURES, read_idx
from fedhpc.data.sources.naming import mistake
from fedhpc.data.sources.pixels import in_unit

_CLASS, _WRITER, _COLUMNS = 0, 2, 8
"""Of QMNIST's columns: class, HSF series, writer, digit index, class code, global index, duplicate, reserved."""


def load_idx(settings: IDX) -> Examples:
    """Pictures [height, width] in 0..1, training ones first, in the files' order. The classes are the labels that the
    training examples have, by number.

    Raises ExperimentError where a file is damaged, the files are of unequal length, a held-out label is no training
    label, or QMNIST tells another label.
    """
    images, labels = _part(settings.images, settings.labels, "", settings.transposed)
    test_images, test_labels = _part(settings.test_images, settings.test_labels, "test_", settings.transposed)
    if images.shape[1:] != test_images.shape[1:]:
        sizes = [f"{part.shape[1]} by {part.shape[2]}" for part in (images, test_images)]
        raise mistake(
            settings.test_images, "test_images", f"held-out pictures are {sizes[1]}, training pictures {sizes[0]}"
        )
    strange = np.setdiff1d(test_labels, labels)
    if len(strange):
        raise mistake(
            settings.test_labels, "test_labels", f"no training example has the label {strange[0]}; the files are of two"
        )
    ranks, names = codes(np.concatenate([labels, test_labels]))
    features = np.empty((len(ranks), *images.shape[1:]), np.float32)
    features[: len(labels)] = in_unit(images)
    features[len(labels) :] = in_unit(test_images)
    clients: NDArray[np.int64] | None = None
    client_names: tuple[str, ...] = ()
    if settings.writers is not None:
        clients = np.full(len(ranks), -1)
        clients[: len(labels)], client_names = codes(_writers(settings.writers, labels))
    return Examples(features, ranks, np.arange(len(ranks)) >= len(labels), names, clients, client_names)


def _part(images: Path, labels: Path, prefix: str, transposed: bool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures and labels of one part; ``prefix`` of their keys."""
    pixels = read_idx(images, f"{prefix}images", PICTURES)
    found = read_idx(labels, f"{prefix}labels", LABELS, EXTENDED_LABELS)
    if found.ndim == 2:
        found = _columns(found, labels, f"{prefix}labels")[:, _CLASS]
    if len(found) != len(pixels):
        raise mistake(labels, f"{prefix}labels", f"the file has {len(found):,} labels for {len(pixels):,} pictures")
    if not pixels.size:
        raise mistake(images, f"{prefix}images", "the file holds no pictures")
    return pixels.swapaxes(1, 2) if transposed else pixels, found.astype(np.int64)


def _writers(path: Path, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each training example's writer."""
    rows = _columns(read_idx(path, "writers", EXTENDED_LABELS), path, "writers")
    if len(rows) != len(labels):
        raise mistake(path, "writers", f"the file tells of {len(rows):,} digits, but there are {len(labels):,} labels")
    other = np.flatnonzero(rows[:, _CLASS] != labels)
    if len(other):
        first = other[0]
        raise mistake(
            path,
            "writers",
            f"digit {first} is a {rows[first, _CLASS]} here and a {labels[first]} in the labels; the files do not "
            "belong together",
        )
    return rows[:, _WRITER].astype(np.int64)


def _columns(rows: NDArray[np.int32], path: Path, key: str) -> NDArray[np.int32]:
    if rows.shape[1] != _COLUMNS:
        raise mistake(path, key, f"the file has {rows.shape[1]} columns; QMNIST's labels have {_COLUMNS}")
    return rows
