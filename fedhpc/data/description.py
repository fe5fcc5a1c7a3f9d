"""What the clients of a federated data set hold, in a few lines."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.federated import FederatedData
from fedhpc.data.settings import Stragglers
from fedhpc.task import Learning, NextWords

_NAMED = 3
"""So many of the most and of the least frequent labels are named, with their share of all."""

_LISTED = 20
"""So many straggler clients are named."""

_BLOCK = 2**22
"""Labels that are counted at a time: those of all tokens need not fit into memory."""


def description(task: Learning, data: FederatedData) -> Iterator[tuple[str, str]]:
    """Heading and text of each line: clients, examples, labels, stragglers, the shape, and what is held out."""
    sizes, held_out = np.diff(data.offsets), len(data.test_labels)
    counts = _counted(data.labels, data.classes)
    yield "clients", f"{len(sizes):,}"
    yield "training examples", f"{len(data.labels):,}"
    yield "held out", _held_out(held_out, len(data.labels) + (data.taken_away or 0))
    yield "an example", f"{_shape(data.shape)} of {data.features.dtype}"
    yield "examples a client", _spread(sizes)
    if data.labels.ndim == 1:
        yield from _labels("labels", counts, data.class_names, "examples")
        yield "labels a client", _spread(np.count_nonzero(data.class_counts, axis=1))
    else:
        labels, labelled = ("words", "tokens") if isinstance(task, NextWords) else ("segments", "voxels")
        yield f"{labelled} an example", _shape(data.labels.shape[1:])
        yield from _labels(labels, counts, data.class_names, labelled)
    if task.stragglers is not None:
        yield "straggler clients", _stragglers(data, sizes)
        yield "they are", _names(data)
        if len(data.straggler_classes):
            names = ", ".join(data.class_names[number] for number in data.straggler_classes)
            share = np.isin(data.test_labels, data.straggler_classes).mean()
            yield "straggler classes", f"{names}: {_percent(share)} of the held-out examples"
            if data.taken_away is not None:
                lost = f"{data.taken_away:,} training examples of these classes"
                yield "taken away", f"{lost}, from the clients who are no stragglers"
        if data.test_tagged is not None:
            tags, share = ", ".join(task.stragglers.tags or ()), _percent(data.test_tagged.mean())
            yield "straggler tags", f"{tags}: {share} of the held-out examples"


def chosen(data: FederatedData, stragglers: Stragglers) -> str:
    """Who the straggler clients are, in a sentence."""
    count, clients = int(data.stragglers.sum()), len(data.stragglers)
    told = f"{count:,} of {clients:,} clients"
    if stragglers.tags is not None:
        told += f", who have {' or '.join(stragglers.tags)}"
    elif data.taken_away is not None:
        names = ", ".join(data.class_names[number] for number in data.straggler_classes)
        told += f"; {data.taken_away:,} training examples of {names} are taken away from the others"
    return f"{told}; nobody is left to compare them with" if count == clients else told


def _names(data: FederatedData) -> str:
    """Some of the straggler clients' names."""
    names = [data.client_names[client] for client in np.flatnonzero(data.stragglers)]
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more or "nobody"


def _counted(labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """How often each class is a label, int64 [classes]; -1 is none."""
    counts = np.zeros(classes, np.int64)
    block = max(1, _BLOCK // max(1, int(np.prod(labels.shape[1:]))))
    for start in range(0, len(labels), block):
        some = labels[start : start + block].ravel()
        counts += np.bincount(some[some >= 0], minlength=classes)
    return counts


def _held_out(held_out: int, training: int) -> str:
    """``training``: with those that are taken away, of which the share was drawn too."""
    return f"{held_out:,} examples, {_percent(held_out / (held_out + training))} of all; the same for every trial"


def _spread(values: NDArray[np.int64]) -> str:
    """The least, the quartiles, the most; and how many are zero."""
    least, lower, middle, upper, most = np.quantile(values, (0, 0.25, 0.5, 0.75, 1))
    inner = f"quartiles {_number(lower)}, {_number(middle)} (the median) and {_number(upper)}"
    words = f"least {least:,.0f}, {inner}, most {most:,.0f}"
    none = int(np.count_nonzero(values == 0))
    return f"{words}; {none:,} {'has' if none == 1 else 'have'} none" if none else words


def _labels(heading: str, counts: NDArray[np.int64], names: tuple[str, ...], what: str) -> Iterator[tuple[str, str]]:
    """How many labels there are, and which are the most and the least frequent of those that occur."""
    found = [number for number in np.argsort(-counts, kind="stable") if counts[number]]
    yield heading, f"{len(counts):,}" + (f", of which {len(found):,} occur" if len(found) < len(counts) else "")
    if len(found) <= 2 * _NAMED:
        yield f"{what} of each", _shares(found, counts, names)
    else:
        yield f"most {what}", _shares(found[:_NAMED], counts, names)
        yield f"least {what}", _shares(found[: -_NAMED - 1 : -1], counts, names)


def _shares(numbers: list[int], counts: NDArray[np.int64], names: tuple[str, ...]) -> str:
    total = max(1, int(counts.sum()))
    told = [f"{_named(names[number])} {counts[number]:,} ({_percent(counts[number] / total)})" for number in numbers]
    return ", ".join(told) or "none"


def _stragglers(data: FederatedData, sizes: NDArray[np.int64]) -> str:
    clients, examples, total = int(data.stragglers.sum()), int(sizes[data.stragglers].sum()), int(sizes.sum())
    of_clients, of_examples = clients / max(1, len(sizes)), examples / max(1, total)
    return (
        f"{clients:,} ({_percent(of_clients)} of the clients) with {examples:,} training examples "
        f"({_percent(of_examples)}); the others have {total - examples:,}"
    )


def _named(label: str) -> str:
    """Some characters are seen in quotes only."""
    return f"{label}:" if label.strip() and label.isprintable() else f"{label!r}:"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:g}"


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{length:,}" for length in shape) if shape else "one number"
