"""A task's data made ready once: loaded, partitioned, ordered by client, and kept in a file that ranks map.

1. load the source's examples, training and held-out;
2. give the training examples their clients (the partition);
3. choose the straggler clients and take the straggler classes from the others;
4. write the examples client by client, under a name that tells everything they depend on.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.federated import MAPPED, open_population, open_prepared
from fedhpc.data.partitions import ImpossiblePartition, owners
from fedhpc.data.paths import content_of, find_data
from fedhpc.data.settings import ByColumn, DataFile, Partition, Stragglers, TextFile
from fedhpc.data.sources import load
from fedhpc.data.stragglers import kept_examples, straggler_clients
from fedhpc.federation.population import Population
from fedhpc.mistakes import ExperimentError
from fedhpc.models.shapes import shape_mistakes
from fedhpc.streams import Purpose, sequential
from fedhpc.task import Classification, NullTask, Task

if TYPE_CHECKING:
    from fedhpc.experiment import Experiment

FORMAT = 2
"""Part of a prepared file's name: raised when the same settings begin to give other examples."""

_BLOCK = 4096
"""Examples copied into the file at a time."""


def fingerprint(task: Classification, base: Path) -> str:
    """The content of the task's data source, in short: a file's SHA-256, or a built-in source's name.

    Paths resolve against ``base``, the experiment file's folder. Raises ExperimentError where the file is missing.
    """
    if not isinstance(task.data, DataFile | TextFile):
        return task.data.source
    path = find_data(task.data.path, base)
    try:
        return content_of(path)
    except OSError as error:
        raise ExperimentError(path, [f"task.data.path: the file cannot be read: {error.strerror}"]) from None


def fingerprint_of(experiment: "Experiment") -> str:
    """``fingerprint`` of an experiment's data; empty for a null task."""
    if not isinstance(experiment.task, Classification):
        return ""
    with _told_of(experiment.file):
        return fingerprint(experiment.task, experiment.file.parent)


def prepared_data(experiment: "Experiment", folder: Path, trial: int = 0) -> Path | None:
    """A trial's data as ranks read them, in ``FOLDER/data``, prepared if they are not there yet; None for a null task.
    Raises ExperimentError where the data are missing, not as the task says, or not for its model."""
    if not isinstance(experiment.task, Classification):
        return None
    with _told_of(experiment.file):
        path = prepare(experiment.task, experiment.seed, experiment.file.parent, folder / "data", trial)
    mistakes = shape_mistakes(experiment.task.model, open_prepared(path).shape)
    if mistakes:
        raise ExperimentError(experiment.file, mistakes)
    return path


@contextmanager
def _told_of(file: Path) -> Iterator[None]:
    """Within, what is wrong with no file in particular is told of the experiment's file."""
    try:
        yield
    except ExperimentError as error:
        if error.path != file.parent:
            raise
        raise type(error)(file, error.mistakes) from None


def prepare(task: Classification, seed: int, base: Path, folder: Path, trial: int = 0) -> Path:
    """The prepared file of this task's data, written if it is not there yet; see ``open_prepared``.

    ``seed`` is the experiment's. Trials whose ``task.data_trial`` is the same share one file. ``folder`` is made if
    need be. Two processes may prepare the same file at once. Raises ExperimentError where the data are not as the task
    says.
    """
    trial = task.data_trial(trial)
    path = folder / f"{_digest(task, seed, trial, fingerprint(task, base))}.hdf5"
    if path.exists():
        return path
    keeps_clients = isinstance(task.partition, ByColumn)
    examples = load(task.data, keeps_clients, sequential(seed, 0, Purpose.HELD_OUT), base)
    owner, names = _owners(examples, task.partition, sequential(seed, trial, Purpose.PARTITION), base)
    dealt = owner >= 0
    training, owner = np.flatnonzero(~examples.held_out)[dealt], owner[dealt]
    labels = examples.labels[training]
    classes: list[int] = []
    stragglers, kept = np.zeros(len(names), bool), np.ones(len(labels), bool)
    if task.stragglers:
        classes = _straggler_classes(task.stragglers, labels, len(names), examples.class_names, base)
        stragglers = straggler_clients(labels, owner, len(names), classes, task.stragglers.clients)
        kept = kept_examples(labels, owner, stragglers, classes)
    training, owner = training[kept], owner[kept]
    with _published(path) as file:
        _write_examples(file, "", examples, training[np.argsort(owner, kind="stable")])
        _write_examples(file, "test_", examples, np.flatnonzero(examples.held_out))
        file["offsets"] = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(names)))])
        file["stragglers"] = stragglers
        file["straggler_classes"] = np.array(classes, np.int64)
        file["client_names"] = np.char.encode(names, "utf-8")
        file["class_names"] = np.char.encode(examples.class_names, "utf-8")
        file.attrs["sha256"] = _arrays_digest(file)
    return path


def population_of(task: Task, prepared: Path | None) -> Population:
    """The clients of any task. ``prepared`` is what ``prepare`` returned; a null task needs none."""
    if isinstance(task, NullTask):
        stragglers = np.arange(task.clients) >= task.clients - task.stragglers
        return Population(np.full(task.clients, task.examples), stragglers)
    if prepared is None:
        raise ValueError("the population of a classification task is known once its data are prepared")
    return open_population(prepared, task.model)


def _digest(task: Classification, seed: int, trial: int, content: str) -> str:
    settings = task.model_dump(mode="json", include={"data", "partition", "stragglers"}, exclude={"data": {"path"}})
    # Trial 0's has none in its name, as when all trials shared one file.
    parts = [FORMAT, settings, seed, content, *([trial] if trial else [])]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _owners(
    examples: Examples, partition: Partition, generator: np.random.Generator, base: Path
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The client of each training example, -1 for none, and the clients' names. Raises ExperimentError where the
    examples cannot be dealt."""
    labels = examples.labels[~examples.held_out]
    if isinstance(partition, ByColumn):
        assert examples.clients is not None  # a source that brings no clients was refused with the settings
        return examples.clients[~examples.held_out], examples.client_names
    try:
        owner = owners(partition, labels, generator)
    except ImpossiblePartition as error:
        raise ExperimentError(base, [f"task.partition.{error}"]) from None
    return owner, tuple(str(client) for client in range(partition.clients))


def _straggler_classes(
    settings: Stragglers, labels: NDArray[np.int64], clients: int, class_names: tuple[str, ...], base: Path
) -> list[int]:
    """The straggler classes by number; the settings may name them. ``labels``: of the training examples. Raises
    ExperimentError where the stragglers cannot be had."""
    mistakes = []
    numbers = {name: number for number, name in enumerate(class_names)}
    classes = [numbers.get(given, -1) if isinstance(given, str) else given for given in settings.classes]
    unknown = [given for given, number in zip(settings.classes, classes, strict=True) if not 0 <= number < len(numbers)]
    if unknown:
        called = ", ".join(class_names[:20]) + (", ..." if len(class_names) > 20 else "")
        mistakes.append(
            f"task.stragglers.classes: there is no class {', '.join(map(str, unknown))}; the classes are numbered "
            f"0 to {len(class_names) - 1}, for the labels {called}"
        )
    else:
        nobodys = [class_names[number] for number in classes if not (labels == number).any()]
        if nobodys:
            mistakes.append(
                f"task.stragglers.classes: no client has a training example of {', '.join(nobodys)}; leave it out or "
                "name another"
            )
    if settings.clients > clients:
        mistakes.append(f"task.stragglers.clients: {settings.clients} exceeds the data's {clients} clients; lower it")
    if mistakes:
        raise ExperimentError(base, mistakes)
    return classes


@contextmanager
def _published(path: Path) -> Iterator[Any]:
    """An HDF5 file that appears at ``path`` when it is complete, or not at all (law 5)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}-{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        with h5py.File(partial, "x", locking=False) as file:
            yield file
            file.flush()
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        # Whoever came first is kept: others may have mapped that file already.
        if not path.exists():
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _write_examples(file: Any, prefix: str, examples: Examples, order: NDArray[np.int64]) -> None:
    shape = (len(order), *examples.features.shape[1:])
    features = file.create_dataset(f"{prefix}features", shape, np.float32)
    for start in range(0, len(order), _BLOCK):
        features[start : start + _BLOCK] = examples.features[order[start : start + _BLOCK]]
    file[f"{prefix}labels"] = examples.labels[order]


def _arrays_digest(file: Any) -> str:
    """The SHA-256 of the file's arrays, name by name."""
    digest = hashlib.sha256()
    for name in (*MAPPED, "offsets", "stragglers", "straggler_classes"):
        dataset = file[name]
        digest.update(f"{name} {dataset.dtype.str} {dataset.shape}\n".encode())
        for start in range(0, len(dataset), _BLOCK):
            digest.update(dataset[start : start + _BLOCK].tobytes())
    return digest.hexdigest()
