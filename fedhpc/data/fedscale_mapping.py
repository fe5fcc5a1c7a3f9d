"""FedScale's mapping files as a partition: which client holds which sample (Lai et al. 2022; RELAY's mapping D2)."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples, FileRows
from fedhpc.data.sources.coding import codes
from fedhpc.data.sources.mapping_file import mapping_lines, mapping_mistake
from fedhpc.mistakes import ExperimentError

_KEY = "task.partition.path"


def mapped(path: Path, examples: Examples) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """What the clients of a mapping file hold: the examples' indices among all ``examples`` and, alike, their clients,
    int64 [held]; and the clients' names, in sorted order. Held-out examples are left out; a client may be left with
    none.

    Raises ExperimentError where the file is no such mapping, names a sample that the data lack, or one twice of a
    client.
    """
    file_rows = examples.file_rows
    assert file_rows is not None  # data that are no rows of a file were refused with the settings
    row_of = _rows(file_rows, path)
    mend = "task.data.sample names their column, and without it they are numbered from 0"
    clients, rows, held = [], [], set()
    for line, client, sample, *_ in mapping_lines(path, _KEY):
        row = row_of.get(sample)
        if row is None:
            raise _mistake(path, f"line {line}: the data hold no sample '{sample}'; {mend}")
        if (client, row) in held:
            raise _mistake(path, f"line {line}: client '{client}' has the sample '{sample}' twice")
        held.add((client, row))
        clients.append(client)
        rows.append(row)
    if not clients:
        raise _mistake(path, "the file names no sample under its heading")
    client_of, names = codes(np.array(clients))
    # The example of each row; none where a missing value leaves the row out.
    example_of = np.full(file_rows.total, -1)
    example_of[file_rows.of_example] = np.arange(len(file_rows.of_example))
    example = example_of[rows]
    dealt = (example >= 0) & ~examples.held_out[example]
    if not dealt.any():
        raise _mistake(path, f"none of its {len(rows):,} samples is for training: all are held out")
    return example[dealt], client_of[dealt], names


def _rows(file_rows: FileRows, path: Path) -> dict[str, int]:
    """A sample's name -> its row."""
    if file_rows.names is None:
        return {str(row): row for row in range(file_rows.total)}
    row_of: dict[str, int] = {}
    for row, sample in enumerate(file_rows.names.tolist()):
        if sample and row_of.setdefault(sample, row) != row:
            raise _mistake(
                path, f"the data hold two samples called '{sample}', so that the file cannot tell them apart"
            )
    return row_of


def _mistake(path: Path, sentence: str) -> ExperimentError:
    return mapping_mistake(path, _KEY, sentence)
