"""Arrays of an HDF5 file whose numbers another file holds: by external links, external storage or virtual datasets.

Prepared data are known by the content of the files that the settings name, so that a change of any other would go
unnoticed; and HDF5 gives its fill value, 0, for what a virtual dataset does not find.
"""

from typing import Any

ELSEWHERE = "lies in another file, whose changes would go unnoticed; copy its numbers into this one"


def lies_elsewhere(dataset: Any, group: Any) -> bool:
    """Whether what the dataset holds is not in the file that ``group`` is of."""
    return bool(dataset.is_virtual or dataset.external or dataset.file.filename != group.file.filename)
