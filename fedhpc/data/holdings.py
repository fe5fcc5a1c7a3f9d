"""Who holds which training example, whatever the partition."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.fedscale_mapping import mapped
from fedhpc.data.label_limited import label_limited
from fedhpc.data.partitions import ImpossiblePartition, owners
from fedhpc.data.settings import ByColumn, DealtPartition, DrawnPartition, FedScaleMapping, LabelLimited, Partition
from fedhpc.mistakes import ExperimentError


class Holdings(NamedTuple):
    """``examples``: indices among all of the source's examples; ``clients``, alike, who holds them; both int64 [held].
    An example stands there once for each client that holds it, and not at all where nobody does. ``names``: the
    clients', [clients]."""

    examples: NDArray[np.int64]
    clients: NDArray[np.int64]
    names: tuple[str, ...]


def holdings(examples: Examples, partition: Partition, generator: np.random.Generator, base: Path) -> Holdings:
    """What each client holds by the partition. ``generator`` is for what is drawn; mistakes are told of ``base``.

    Raises ExperimentError where the examples cannot be dealt in this way, or the mapping file is not as it should be.
    """
    if isinstance(partition, FedScaleMapping):
        return Holdings(*mapped(partition.path, examples))
    training = np.flatnonzero(~examples.held_out)
    if isinstance(partition, ByColumn):
        assert examples.clients is not None  # a source that brings no clients was refused with the settings
        owner, names = examples.clients[training], examples.client_names
        return Holdings(training, owner, names)
    try:
        rows, clients = _drawn(partition, examples.labels[training], generator)
    except ImpossiblePartition as error:
        raise ExperimentError(base, [f"task.partition.{error}"]) from None
    return Holdings(training[rows], clients, tuple(str(client) for client in range(partition.clients)))


def _drawn(
    partition: DrawnPartition, labels: NDArray[np.int64], generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if isinstance(partition, LabelLimited):
        return label_limited(partition, labels, generator)
    assert isinstance(partition, DealtPartition)
    owner = owners(partition, labels, generator)
    rows = np.flatnonzero(owner >= 0)
    return rows, owner[rows]
