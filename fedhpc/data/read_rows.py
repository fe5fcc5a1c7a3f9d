"""Features that are read from files when they are used, so that a data set of pictures need not fit into memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ReadRows:
    """Stands where an array of features would, one file an example: ``rows[indices]`` is float32
    [indices, *example], read anew each time. ``read`` takes a file's path, and raises ExperimentError where the file is
    not as it should be."""

    files: Sequence[str]
    example: tuple[int, ...]
    read: Callable[[str], NDArray[np.float32]]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.files), *self.example)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        found = np.empty((len(rows), *self.example), np.float32)
        for place, row in enumerate(rows.tolist()):
            found[place] = self.read(self.files[row])
        return found
