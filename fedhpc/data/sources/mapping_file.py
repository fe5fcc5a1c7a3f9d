"""The lines of FedScale's mapping files (Lai et al. 2022): which client holds which sample.

A file is comma-separated values under the heading ``client_id,sample_path,label_name,label_id``, a line a sample, as in
the folders ``client_data_mapping`` of FedScale's data sets.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedhpc.mistakes import ExperimentError

HEADING = ("client_id", "sample_path", "label_name", "label_id")
_NEEDED = 2


class Sample(NamedTuple):
    """A line: its number, from 1, and its cells; those of the label are empty where the file has no such columns."""

    line: int
    client: str
    path: str
    label_name: str
    label_id: str


def mapping_lines(path: Path, key: str) -> Iterator[Sample]:
    """The file's lines, in its order. Raises ExperimentError, of the full ``key``, where it is no such file, or a line
    lacks a cell, its client or its sample."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as text:
            reader = csv.reader(text)
            heading = [name.strip() for name in next(reader, [])]
            if not heading:
                raise mapping_mistake(path, key, f"the file is empty; its first line is {','.join(HEADING)}")
            missing = [name for name in HEADING[:_NEEDED] if name not in heading]
            if missing:
                has = ", ".join(map(repr, heading))
                told = f"line 1 names no column {' or '.join(map(repr, missing))}, but {has}"
                raise mapping_mistake(path, key, told)
            places = [heading.index(name) if name in heading else None for name in HEADING]
            for cells in filter(None, reader):
                line = reader.line_num
                if len(cells) != len(heading):
                    told = f"line {line} has {len(cells)} cells, but line 1 names {len(heading)} columns"
                    raise mapping_mistake(path, key, told)
                sample = Sample(line, *("" if place is None else cells[place].strip() for place in places))
                if not sample.client or not sample.path:
                    told = f"line {line} has no {HEADING[1] if sample.client else HEADING[0]}"
                    raise mapping_mistake(path, key, told)
                if "\0" in sample.client + sample.label_name:  # numpy would drop it, and two names would be one
                    raise mapping_mistake(path, key, f"line {line} holds a character NUL; write the file anew")
                yield sample
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise mapping_mistake(path, key, f"the file cannot be read as CSV in UTF-8: {error}") from None


def mapping_mistake(path: Path, key: str, sentence: str) -> ExperimentError:
    """The error that the file is not as it should be."""
    return ExperimentError(path, [f"{key}: {sentence}"])
