"""A data set of FedScale (Lai et al. 2022): a mapping file a split, and the folder of what it names."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import FedScaleFolder
from fedhpc.data.read_rows import ReadRows
from fedhpc.data.sources.coding import codes
from fedhpc.data.sources.inside import found_files
from fedhpc.data.sources.mapping_file import Sample, mapping_lines
from fedhpc.data.sources.naming import mistake
from fedhpc.data.sources.pictures import resized_picture
from fedhpc.data.sources.recordings import spectrogram

_NUMBER = re.compile("[0-9]{1,9}")


def load_fedscale(settings: FedScaleFolder) -> Examples:
    """Pictures [side, side, 3] in 0..1 or spectrograms [side, side], read when they are used; training ones first,
    in the mapping files' orders. The clients are those of the training mapping, the classes the ``label_id`` of both,
    under their ``label_name``.

    Raises ExperimentError where a mapping is no such file, names a sample that is not there or one twice of a client,
    or a label's name and number disagree.
    """
    labels = _Labels()
    train = _kept(_samples(settings.mapping, "mapping", labels), settings.most_examples)
    test = _samples(settings.test_mapping, "test_mapping", labels)
    files = [
        *_files(train, settings.folder, settings.mapping, "mapping"),
        *_files(test, settings.test_folder, settings.test_mapping, "test_mapping"),
    ]
    class_names = labels.names(settings.mapping)
    held_out = np.arange(len(files)) >= len(train)
    clients = np.full(len(files), -1)
    clients[~held_out], client_names = codes(np.array([sample.client for sample in train]))
    features = ReadRows(files, *_reading(settings))
    numbers = np.array([int(sample.label_id) for sample in (*train, *test)])
    return Examples(features, numbers, held_out, class_names, clients, client_names)


def _reading(settings: FedScaleFolder) -> tuple[tuple[int, ...], Callable[[str], NDArray[np.float32]]]:
    """An example's shape, and how its file is read."""
    side = settings.side
    if settings.content == "pictures":
        return (side, side, 3), partial(resized_picture, side=side, key="folder")
    return (side, side), partial(spectrogram, bands=side, key="folder")


class _Told(NamedTuple):
    number: int
    name: str
    line: int
    path: Path


class _Labels:
    """Which name goes with which number, as the first line to bear either says."""

    def __init__(self) -> None:
        self._of_number: dict[int, _Told] = {}
        self._of_name: dict[str, _Told] = {}

    def add(self, sample: Sample, path: Path, key: str) -> None:
        if not _NUMBER.fullmatch(sample.label_id):
            raise mistake(path, key, f"line {sample.line}: label_id '{sample.label_id}' is no whole number from 0")
        number, name = int(sample.label_id), sample.label_name
        if not name:
            raise mistake(path, key, f"line {sample.line} has no label_name")
        of_number, of_name = self._of_number.get(number), self._of_name.get(name)
        told = f"line {sample.line}: '{name}' has the label_id {number}"
        if of_number is not None and of_number.name != name:
            raise mistake(
                path, key, f"{told}, which is '{of_number.name}' in line {of_number.line} of {of_number.path}"
            )
        if of_name is not None and of_name.number != number:
            raise mistake(path, key, f"{told}, but {of_name.number} in line {of_name.line} of {of_name.path}")
        if of_number is None:
            self._of_number[number] = self._of_name[name] = _Told(number, name, sample.line, path)

    def names(self, path: Path) -> tuple[str, ...]:
        """By number. Raises ExperimentError where a number is nobody's."""
        absent = next((number for number in range(len(self._of_number)) if number not in self._of_number), None)
        if absent is not None:
            told = f"no sample has the label_id {absent}, but one has {max(self._of_number)}"
            raise mistake(path, "mapping", f"{told}; the numbers are 0 to k - 1 of k labels")
        return tuple(self._of_number[number].name for number in range(len(self._of_number)))


def _samples(path: Path, key: str, labels: _Labels) -> list[Sample]:
    samples, held = [], set()
    for sample in mapping_lines(path, f"task.data.{key}"):
        labels.add(sample, path, key)
        if (sample.client, sample.path) in held:
            raise mistake(
                path, key, f"line {sample.line}: client '{sample.client}' has the sample '{sample.path}' twice"
            )
        held.add((sample.client, sample.path))
        samples.append(sample)
    if not samples:
        raise mistake(path, key, "the file names no sample under its heading")
    return samples


def _kept(samples: list[Sample], most: int | None) -> list[Sample]:
    """The first ``most`` samples of each client."""
    if most is None:
        return samples
    held: dict[str, int] = {}
    kept = []
    for sample in samples:
        held[sample.client] = held.get(sample.client, 0) + 1
        if held[sample.client] <= most:
            kept.append(sample)
    return kept


def _files(samples: list[Sample], folder: Path, path: Path, key: str) -> list[str]:
    names, lines = [sample.path for sample in samples], [f"line {sample.line}" for sample in samples]
    return found_files(folder, names, lines, path, key)
