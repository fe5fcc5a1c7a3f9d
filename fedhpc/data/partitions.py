"""How examples are dealt to clients: pure functions of labels, settings and a random stream."""

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.settings import IID, Dirichlet


def iid(settings: IID, labels: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """The client of each example, int64 [examples]: dealt at random in equal numbers (sizes differ by at most one)."""
    owner = np.empty(len(labels), np.int64)
    owner[generator.permutation(len(labels))] = np.arange(len(labels)) % settings.clients
    return owner


def dirichlet(settings: Dirichlet, labels: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """The client of each example, int64 [examples].

    Yurochkin et al. 2019 (and Hsu et al. 2019, with the roles of class and client exchanged): for each class one draw
    of Dirichlet(concentration, ..., concentration) gives the clients' shares of its examples, which are shuffled and
    cut at the cumulative shares. Clients may end up empty.
    """
    owner = np.empty(len(labels), np.int64)
    concentrations = np.full(settings.clients, settings.concentration)
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        shares = generator.dirichlet(concentrations)
        cuts = (np.cumsum(shares[:-1]) * len(rows)).astype(np.int64)
        owner[rows] = np.repeat(np.arange(settings.clients), np.diff(cuts, prepend=0, append=len(rows)))
    return owner
