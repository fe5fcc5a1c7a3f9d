"""What a data set of TFF's says about its examples, whatever file they lie in."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.tff_split import Field


class NotAsItShouldBe(ValueError):
    """Examples of a client that are not as the data set has them; says why."""


class Read(NamedTuple):
    """Some examples: ``features`` float32 [examples, *example], ``labels`` int64 [examples, *places], ``tagged`` bool
    [examples], None where no tags are asked for."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    tagged: NDArray[np.bool_] | None


class Reading(Protocol):
    """How a data set's fields become examples of shape ``example`` with labels of shape ``places``."""

    @property
    def fields(self) -> Sequence[Field]: ...

    @property
    def example(self) -> tuple[int, ...]: ...

    @property
    def places(self) -> tuple[int, ...]: ...

    @property
    def unscored(self) -> tuple[int, ...]:
        """The classes that accuracy leaves out."""

    def read(self, columns: Mapping[str, Any]) -> Read:
        """Some rows, by field. Raises NotAsItShouldBe."""

    def class_names(self, labels: NDArray[np.int64]) -> tuple[str, ...]:
        """Of the classes, where all examples have these labels."""

    def missing_tags(self) -> Sequence[str]:
        """The straggler clients' tags that no example read so far bears, in quotation marks, each with what it may
        have been meant to be."""


def in_range(field: str, values: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Labels as int64. Raises NotAsItShouldBe where one is not in 0..classes-1."""
    outside = (values < 0) | (values >= classes)
    if outside.any():
        raise NotAsItShouldBe(f"'{field}' has the value {values[outside][0]}; it takes 0 to {classes - 1}")
    return values.astype(np.int64)
