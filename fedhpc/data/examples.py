"""What every source of data loads into."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.read_rows import ReadRows


class FileRows(NamedTuple):
    """Which row of its file an example is: ``of_example``, int64 [examples], of ``total`` rows, those included that are
    no examples because a value is missing. ``names``: what the file calls its rows, str [total], of which held-out ones
    may have the empty string; None where it does not say."""

    of_example: NDArray[np.int64]
    total: int
    names: NDArray[np.str_] | None


@dataclass(frozen=True)
class Examples:
    """Labelled examples, training and held-out ones together.

    ``features``: float32 [examples, *shape], or what reads them when they are used. ``labels``: int64 [examples], each
    in 0..classes-1; of a task that labels each token or voxel, [examples, *places], where -1 is a place without a
    label. ``held_out``: bool [examples]. ``class_names``: what the labels were called, [classes]. ``clients``: int64
    [examples], an index into ``client_names``; held-out examples need none, and may have -1. None where the data's
    clients are not used. ``file_rows`` is for examples that are the rows of a data file. ``unscored``: the classes that
    accuracy leaves out, as marks are no words. ``tagged``: bool [examples], those that bear one of the straggler tags;
    None where the task asks for none. ``words``: where features are numbers of words, what each stands for.
    """

    features: NDArray[np.float32] | ReadRows
    labels: NDArray[np.int64]
    held_out: NDArray[np.bool_]
    class_names: tuple[str, ...]
    clients: NDArray[np.int64] | None = None
    client_names: tuple[str, ...] = ()
    file_rows: FileRows | None = None
    unscored: tuple[int, ...] = ()
    tagged: NDArray[np.bool_] | None = None
    words: tuple[str, ...] = ()
