"""What is kept of a run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedhpc.store.variables import VARIABLES, Dimension


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run's numbers, as columns by the names in ``fedhpc.store.variables``.

    ``evaluations`` has columns of shape (evaluations,): times in virtual seconds, resources in learner seconds,
    accuracies as fractions. ``server_updates`` has columns of shape (server updates,), the first for version 1;
    ``clients`` of shape (clients,); ``client_updates`` of shape (client updates kept,). ``attributes`` describe the run
    as a whole (title, settings as YAML text, versions, host, wall seconds) and must hold its ``digest``.

    Raises ValueError for an unknown, missing or misplaced column, for columns of unequal lengths, and for values
    that their variable's type cannot hold.
    """

    algorithm: str
    scenario: str
    trial: int
    seed: int
    evaluations: Mapping[str, ArrayLike]
    server_updates: Mapping[str, ArrayLike]
    clients: Mapping[str, ArrayLike]
    client_updates: Mapping[str, ArrayLike]
    attributes: Mapping[str, str | int | float]

    def __post_init__(self) -> None:
        if not self.attributes.get("digest"):
            raise ValueError("attributes: a record needs the digest of its settings as 'digest'")
        for field, dimension, columns in self._blocks():
            object.__setattr__(self, field, _checked(field, dimension, columns))

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Every column by its name, each of its variable's type."""
        return {name: np.asarray(column) for _, _, block in self._blocks() for name, column in block.items()}

    def lengths(self) -> dict[Dimension, int]:
        """Dimension -> its length."""
        return {dimension: len(np.asarray(next(iter(block.values())))) for _, dimension, block in self._blocks()}

    def _blocks(self) -> Iterator[tuple[str, Dimension, Mapping[str, ArrayLike]]]:
        yield "evaluations", "evaluation", self.evaluations
        yield "server_updates", "server_update", self.server_updates
        yield "clients", "client", self.clients
        yield "client_updates", "client_update", self.client_updates


def _checked(field: str, dimension: Dimension, columns: Mapping[str, ArrayLike]) -> dict[str, NDArray[np.generic]]:
    known = {name: variable for name, variable in VARIABLES.items() if variable.dimension == dimension}
    if unknown := [name for name in columns if name not in known]:
        raise ValueError(f"{field}.{unknown[0]}: unknown column; {field} has {', '.join(known)}")
    if missing := [name for name, variable in known.items() if not variable.optional and name not in columns]:
        raise ValueError(f"{field}: the column {missing[0]} is missing")
    checked = {name: _typed(f"{field}.{name}", columns[name], known[name].dtype) for name in known if name in columns}
    lengths = {name: len(column) for name, column in checked.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{field}: columns along {dimension} differ in length: {lengths}")
    return checked


def _typed(place: str, values: ArrayLike, dtype: str) -> NDArray[np.generic]:
    column = np.asarray(values)
    if column.ndim != 1:
        raise ValueError(f"{place}: a column has one dimension, not {column.ndim}")
    if column.size and not np.can_cast(column.dtype, dtype, casting="same_kind"):
        raise ValueError(f"{place}: {column.dtype} values do not fit {dtype}")
    return column.astype(dtype, copy=False)
