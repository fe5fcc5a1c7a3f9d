"""Which examples are set aside for evaluation, where the data themselves do not say."""

import numpy as np
from numpy.typing import NDArray


def share_of_all(share: float, examples: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Held out: bool [examples], true for exactly ``round(share * examples)`` of them, drawn without replacement."""
    held_out = np.zeros(examples, bool)
    held_out[generator.permutation(examples)[: round(share * examples)]] = True
    return held_out


def share_of_each(share: float, clients: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.bool_]:
    """Held out: bool [examples], ``round(share * n)`` of a client's n examples, but never its last one.

    ``clients``: int64 [examples], the client of each.
    """
    held_out = np.zeros(len(clients), bool)
    by_client = np.argsort(clients, kind="stable")
    ends = np.cumsum(np.bincount(clients))
    for rows in np.split(by_client, ends[:-1]):
        set_aside = min(round(share * len(rows)), len(rows) - 1)
        held_out[generator.permutation(rows)[: max(set_aside, 0)]] = True
    return held_out
