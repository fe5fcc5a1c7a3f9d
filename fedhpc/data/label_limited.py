"""RELAY's label-limited mapping (Abdelmoniem et al. 2021, section 5.1, D3): clients with a few labels each, who draw
their examples independently, so that an example may lie with several."""

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.partitions import ImpossiblePartition
from fedhpc.data.settings import LabelLimited


def label_limited(
    settings: LabelLimited, labels: NDArray[np.int64], generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What the clients hold of ``labels``, int64 [examples]: the examples' rows and, alike, their clients, int64
    [clients * examples of each], client after client.

    1. Each client draws its labels, of those that occur, in an order of its own.
    2. It draws how many examples of which: see ``LabelLimited`` and ``shares``.
    3. Of each label it draws so many examples without replacement; of a class that has too few, all of them as often
       as they fit, and the rest without replacement.

    Raises ImpossiblePartition.
    """
    classes, sizes = np.unique(labels, return_counts=True)
    if settings.labels > len(classes):
        raise ImpossiblePartition(
            f"labels: {settings.labels} exceeds the {len(classes)} classes of the training data; lower it"
        )
    each = len(labels) // settings.clients if settings.examples is None else settings.examples
    if each == 0:
        raise ImpossiblePartition(
            f"clients: {settings.clients:,} exceeds the {len(labels):,} training examples, of which each then holds "
            "none; lower it, or give examples"
        )
    of_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    rows = np.empty(settings.clients * each, np.int64)
    for own in rows.reshape(settings.clients, each):
        held = generator.choice(len(classes), settings.labels, replace=False)
        counts = _counts(settings, each, generator)
        parts = [_taken(of_class[label], count, generator) for label, count in zip(held, counts, strict=True)]
        own[:] = np.concatenate(parts)
    return rows, np.repeat(np.arange(settings.clients), each)


def shares(settings: LabelLimited) -> NDArray[np.float64]:
    """The chance that an example is of the client's label of each rank, float64 [labels]; they add up to 1."""
    exponent = settings.exponent if settings.exponent is not None else 0.0
    weights = np.arange(1, settings.labels + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def _counts(settings: LabelLimited, each: int, generator: np.random.Generator) -> NDArray[np.int64]:
    if settings.distribution == "balanced":
        # The labels come in random order: who gets the one that is left over is a matter of chance.
        return each // settings.labels + (np.arange(settings.labels) < each % settings.labels).astype(np.int64)
    return np.asarray(generator.multinomial(each, shares(settings)), np.int64)


def _taken(rows: NDArray[np.int64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    times, rest = divmod(count, len(rows))
    return np.concatenate([np.tile(rows, times), generator.choice(rows, rest, replace=False)])
