"""A partition in a line: what was asked for, and what the clients got."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.settings import Partition


def asked(partition: Partition) -> str:
    """``class_partition (least_classes 3, most_classes 5, ...)``: the kind and its own keys."""
    keys = partition.model_dump(exclude={"kind", "clients", "each_trial", "empty_clients"})
    own = ", ".join(f"{key} {_told(value)}" for key, value in keys.items() if value is not None)
    return f"{partition.kind} ({own})" if own else partition.kind


def dealt(counts: NDArray[np.int64]) -> str:
    """``10 clients with 88 to 260 training examples (median 139) of 3 to 5 classes``. ``counts``: training examples,
    int64 [clients, classes]. Clients without any are left out of the ranges, and told."""
    return held_by(counts.sum(axis=1), np.count_nonzero(counts, axis=1))


def held_by(sizes: NDArray[np.int64], classes: NDArray[np.int64] | None = None) -> str:
    """The same of clients' ``sizes``, training examples, and how many ``classes`` each has, both int64 [clients];
    without the classes where an example has no one class."""
    empty = int(np.count_nonzero(sizes == 0))
    words = f"{_number(len(sizes), 'client')}"
    if empty < len(sizes):
        held = sizes[sizes > 0]
        middle = "" if held.min() == held.max() else f" (median {np.median(held):,.0f})"
        words += f" with {_range(held, 'training example')}{middle}"
        if classes is not None:
            words += f" of {_range(classes[sizes > 0], 'class', 'classes')}"
    return f"{words}; {empty:,} of them {'is' if empty == 1 else 'are'} empty" if empty else words


def _told(value: float | str | Path) -> str:
    if isinstance(value, Path):
        return value.name
    return value if isinstance(value, str) else f"{value:g}"


def _range(values: NDArray[np.int64], noun: str, nouns: str | None = None) -> str:
    low, high = int(values.min()), int(values.max())
    return _number(high, noun, nouns) if low == high else f"{low:,} to {_number(high, noun, nouns)}"


def _number(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"
