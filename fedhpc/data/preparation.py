"""A task's data made ready once: loaded, partitioned, ordered by client, and kept in a file that ranks map.

1. load the source's examples, training and held-out;
2. give the training examples their clients (the partition), who may hold copies of the same ones;
3. choose the straggler clients and take the straggler classes from the others;
4. write the examples client by client, each one's in the source's order, under a name that tells everything they
   depend on.
"""

import hashlib
import json
import math
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.federated import MAPPED, WORDS, open_population, open_prepared, open_shape
from fedhpc.data.fitting import held_mistakes
from fedhpc.data.holdings import holdings
from fedhpc.data.paths import DataMissing, content_of, find_data
from fedhpc.data.settings import ByColumn
from fedhpc.data.sources import load
from fedhpc.data.stragglers import kept_examples, straggler_clients
from fedhpc.federation.population import Population
from fedhpc.mistakes import ExperimentError
from fedhpc.model_fit import model_mistakes
from fedhpc.models.own_file import own_sources
from fedhpc.models.parameters import parameters_of
from fedhpc.models.settings import OwnModule
from fedhpc.store.replacing import forget_unfinished, temporary_beside, told
from fedhpc.streams import Purpose, sequential
from fedhpc.task import Learning, NullTask, Task

if TYPE_CHECKING:
    from fedhpc.experiment import Experiment

FORMAT = 2
"""Part of a prepared file's name: raised when the same settings begin to give other examples."""

_BLOCK, _BLOCK_BYTES = 4096, 2**27
"""No more examples, or bytes of them, are in hand at a time."""

_MEND = "remove it, and `fedhpc data prepare` or the sweep makes it anew"


def fingerprint(task: Learning, base: Path) -> str:
    """The content of what the task reads, in short: each file's or folder's SHA-256, or a built-in source's name.

    Paths resolve against ``base``, the experiment file's folder. Raises ExperimentError where one is missing.
    """
    return _fingerprint(located(task, base), ("data", "partition", "model"))


def located(task: Learning, base: Path) -> Learning:
    """The task with its paths as they were found: relative to ``base``, then to FEDHPC_DATA's folder. Raises
    DataMissing, with all that are not there."""
    found, missing = {}, []
    for key, path in task.files.items():
        try:
            found[key] = find_data(path, base, f"task.{key}")
        except DataMissing as error:
            missing += error.mistakes
    if missing:
        raise DataMissing(base, missing)
    return task.with_files(found)


def located_task(experiment: "Experiment") -> Learning:
    """``located`` for an experiment whose task learns; what is missing is told of the experiment's file."""
    assert isinstance(experiment.task, Learning)
    with _told_of(experiment.file):
        return located(experiment.task, experiment.file.parent)


def _fingerprint(task: Learning, parts: Collection[str]) -> str:
    contents = {}
    for key, path in task.files.items():
        if key.partition(".")[0] in parts:
            try:
                contents[key] = " ".join(map(content_of, _sources(task, key, path)))
            except OSError as error:
                raise ExperimentError(path, [f"task.{key}: the file cannot be read: {error.strerror}"]) from None
    own = [] if any(key.startswith("data.") for key in contents) else [task.data.source]
    return " ".join([*own, *contents.values()])


def _sources(task: Learning, key: str, path: Path) -> list[Path]:
    """What is read of a path: with a module of one's own, what it imports from beside it."""
    if key == "model.file" and isinstance(task.model, OwnModule):
        return list(own_sources(task.model.module, path).values())
    return [path]


def fingerprint_of(experiment: "Experiment") -> str:
    """``fingerprint`` of an experiment's data; empty for a null task."""
    if not isinstance(experiment.task, Learning):
        return ""
    with _told_of(experiment.file):
        return fingerprint(experiment.task, experiment.file.parent)


def prepared_data(experiment: "Experiment", folder: Path, trial: int = 0) -> Path | None:
    """A trial's data as ranks read them, in ``FOLDER/data``, prepared if they are not there yet; None for a null task.
    Raises ExperimentError where the data are missing, not as the task says, or not for its model."""
    if not isinstance(experiment.task, Learning):
        return None
    with _told_of(experiment.file):
        path = prepare(experiment.task, experiment.seed, experiment.file.parent, folder / "data", trial)
        try:
            data = open_prepared(path)
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            raise ExperimentError(path, [f"the prepared file cannot be read ({error}); {_MEND}"]) from None
        task = located(experiment.task, experiment.file.parent)
        # What the model is to take is known only where the rest is right.
        mistakes = held_mistakes(task, data) or model_mistakes(
            task.model,
            task.model_shape(data.shape),
            data.labels.shape[1:],
            data.class_names,
            data.words,
            experiment.tried(),
        )
    if mistakes:
        raise ExperimentError(experiment.file, mistakes)
    return path


def prepared_file(experiment: "Experiment", folder: Path, trial: int = 0) -> Path | None:
    """Where ``prepared_data`` has a trial's data, be they prepared or not; None for a null task. Raises ExperimentError
    where what they are made of is missing."""
    task = experiment.task
    if not isinstance(task, Learning):
        return None
    with _told_of(experiment.file):
        found = located(task, experiment.file.parent)
        return _file(found, experiment.seed, folder / "data", task.data_trial(trial))


def damage_of(path: Path) -> str | None:
    """What is wrong with a prepared file, after its name: that it is not what was written, say; None where it is. Reads
    all of it."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            whole = file.attrs["sha256"] == _arrays_digest(file)
    except (OSError, KeyError, RuntimeError) as error:
        return f"cannot be read ({error}); {_MEND}"
    return None if whole else f"is damaged: its checksum is not that of what was written; {_MEND}"


def _file(task: Learning, seed: int, folder: Path, trial: int) -> Path:
    """``task`` has its paths as they were found; ``trial`` is that by which its data are drawn."""
    return folder / f"{_digest(task, seed, trial, _fingerprint(task, ('data', 'partition')))}.hdf5"


@contextmanager
def _told_of(file: Path) -> Iterator[None]:
    """Within, what is wrong is told of the experiment's file, whose keys it is about, with the name of another file
    that it is wrong with."""
    try:
        yield
    except ExperimentError as error:
        if error.path == file.parent:
            raise type(error)(file, error.mistakes) from None
        if error.path == file or not all(mistake.startswith("task.") for mistake in error.mistakes):
            raise
        told = [mistake.replace(": ", f": {error.path}: ", 1) for mistake in error.mistakes]
        raise type(error)(file, told) from None


def prepare(task: Learning, seed: int, base: Path, folder: Path, trial: int = 0) -> Path:
    """The prepared file of this task's data, written if it is not there yet; see ``open_prepared``.

    ``seed`` is the experiment's. Trials whose ``task.data_trial`` is the same share one file. ``folder`` is made if
    need be. Two processes may prepare the same file at once. Raises ExperimentError where the data are not as the task
    says.
    """
    trial, task = task.data_trial(trial), located(task, base)
    path = _file(task, seed, folder, trial)
    if path.exists():
        return path
    keeps_clients = isinstance(task.partition, ByColumn)
    tags = (task.stragglers and task.stragglers.tags) or ()
    examples = load(task.data, keeps_clients, tags, sequential(seed, 0, Purpose.HELD_OUT), base)
    generator = sequential(seed, trial, Purpose.PARTITION)
    training, owner, names = holdings(examples, task.partition, generator, base)
    labels = examples.labels[training]
    classes: list[int] = []
    stragglers, kept = np.zeros(len(names), bool), np.ones(len(labels), bool)
    if examples.tagged is not None:
        stragglers[owner[examples.tagged[training]]] = True
    elif task.stragglers:
        given, wanted = task.stragglers.classes or [], task.stragglers.clients or 0
        classes = _straggler_classes(given, wanted, labels, len(names), examples.class_names, base)
        stragglers = straggler_clients(labels, owner, len(names), classes, wanted)
        kept = kept_examples(labels, owner, stragglers, classes)
    training, owner = training[kept], owner[kept]
    with _published(path) as file:
        _write_examples(file, "", examples, training[np.lexsort((training, owner))])
        _write_examples(file, "test_", examples, np.flatnonzero(examples.held_out))
        file["offsets"] = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(names)))])
        file["stragglers"] = stragglers
        file["straggler_classes"] = np.array(classes, np.int64)
        file["client_names"] = np.char.encode(names, "utf-8")
        file["class_names"] = np.char.encode(examples.class_names, "utf-8")
        if examples.words:
            file[WORDS] = np.char.encode(examples.words, "utf-8")
        # Only where there are any, so that files without them are what they were.
        if examples.unscored:
            file["unscored"] = np.array(examples.unscored, np.int64)
        if examples.tagged is not None:
            file["test_tagged"] = examples.tagged[examples.held_out]
        file.attrs["taken_away"] = np.count_nonzero(~kept)
        file.attrs["sha256"] = _arrays_digest(file)
    return path


def population_of(task: Task, prepared: Path | None) -> Population:
    """The clients of any task. ``prepared`` is what ``prepare`` returned; a null task needs none."""
    if isinstance(task, NullTask):
        stragglers = np.arange(task.clients) >= task.clients - task.stragglers
        return Population(np.full(task.clients, task.examples), stragglers)
    if prepared is None:
        raise ValueError("the population of a task that learns is known once its data are prepared")
    shape, classes, words = open_shape(prepared)
    parameters = parameters_of(task.model, task.model_shape(shape), classes, words)
    return replace(open_population(prepared), parameters=parameters)


def _digest(task: Learning, seed: int, trial: int, content: str) -> str:
    parts = {"data", "partition", "stragglers"}
    settings = task.model_dump(mode="json", include=parts, exclude=dict(task.places_of_files))
    # Trial 0's has none in its name, as when all trials shared one file.
    content_and_settings = [FORMAT, settings, seed, content, *([trial] if trial else [])]
    return hashlib.sha256(json.dumps(content_and_settings, sort_keys=True).encode()).hexdigest()


def _straggler_classes(
    given: Sequence[int | str],
    wanted: int,
    labels: NDArray[np.int64],
    clients: int,
    class_names: tuple[str, ...],
    base: Path,
) -> list[int]:
    """The straggler classes by number; some may be given by name. ``wanted``: straggler clients. ``labels``: of the
    training examples. Raises ExperimentError where the stragglers cannot be had."""
    mistakes = []
    numbers = {name: number for number, name in enumerate(class_names)}
    classes = [numbers.get(one, -1) if isinstance(one, str) else one for one in given]
    unknown = [one for one, number in zip(given, classes, strict=True) if not 0 <= number < len(numbers)]
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
    if wanted > clients:
        mistakes.append(f"task.stragglers.clients: {wanted} exceeds the data's {clients} clients; lower it")
    if mistakes:
        raise ExperimentError(base, mistakes)
    return classes


@contextmanager
def _published(path: Path) -> Iterator[Any]:
    """An HDF5 file that appears at ``path`` when it is complete, or not at all (law 5)."""
    partial = temporary_beside(path)
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        forget_unfinished(path)
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
    for rows in _blocks(features):
        features[rows] = examples.features[order[rows]]
    labels = file.create_dataset(f"{prefix}labels", (len(order), *examples.labels.shape[1:]), np.int64)
    for rows in _blocks(labels):
        labels[rows] = examples.labels[order[rows]]


def _blocks(dataset: Any) -> Iterator[slice]:
    block = min(_BLOCK, max(1, _BLOCK_BYTES // (dataset.dtype.itemsize * max(1, math.prod(dataset.shape[1:])))))
    return (slice(start, start + block) for start in range(0, len(dataset), block))


def _arrays_digest(file: Any) -> str:
    """The SHA-256 of the file's arrays, name by name."""
    digest = hashlib.sha256()
    optional = [name for name in ("unscored", "test_tagged") if name in file]
    for name in (*MAPPED, "offsets", "stragglers", "straggler_classes", *optional):
        dataset = file[name]
        digest.update(f"{name} {dataset.dtype.str} {dataset.shape}\n".encode())
        for rows in _blocks(dataset):
            digest.update(dataset[rows].tobytes())
    return digest.hexdigest()
