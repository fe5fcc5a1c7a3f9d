"""Straggler clients (Hard et al., section 4.1): they alone hold the examples of the straggler classes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def straggler_clients(
    labels: NDArray[np.int64], owner: NDArray[np.int64], clients: int, classes: Sequence[int], count: int
) -> NDArray[np.bool_]:
    """Which clients are stragglers, bool [clients]: the ``count`` with the most examples of ``classes``; of clients
    with equally many, the lower index. ``labels`` and ``owner`` (an example's client): int64 [examples]."""
    held = np.bincount(owner[np.isin(labels, classes)], minlength=clients)
    stragglers = np.zeros(clients, bool)
    stragglers[np.argsort(-held, kind="stable")[:count]] = True
    return stragglers


def kept_examples(
    labels: NDArray[np.int64], owner: NDArray[np.int64], stragglers: NDArray[np.bool_], classes: Sequence[int]
) -> NDArray[np.bool_]:
    """Bool [examples]: all but the examples of ``classes`` on clients that are no stragglers."""
    return np.asarray(stragglers[owner] | ~np.isin(labels, classes))
