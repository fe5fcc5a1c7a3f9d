"""CSV files: a line of column names, then a line an example."""

import csv
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fedhpc.data.sources.naming import Named, check_columns, mistake
from fedhpc.data.sources.rows import Rows
from fedhpc.mistakes import ExperimentError

_MISSING = frozenset({"", "?", "na", "nan", "n/a", "null"})


def read_csv(path: Path, features: Sequence[str], columns: Sequence[Named]) -> Rows:
    """The features as float64 [lines, features], and the other columns as strings.

    ``features`` of ``["*"]`` are all columns but ``columns``. Raises ExperimentError where a column is unknown, a
    line has too many or too few cells, or a feature's cell is no number (with its line and column).
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as text:
            return _read(csv.reader(text), path, features, columns)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise mistake(path, "path", f"the file cannot be read as CSV in UTF-8: {error}") from None


def _read(lines: Iterator[list[str]], path: Path, features: Sequence[str], columns: Sequence[Named]) -> Rows:
    header = [name.strip() for name in next(lines, [])]
    if not header:
        raise mistake(path, "path", "the file is empty; its first line names the columns")
    twice = [name for name, times in Counter(header).items() if times > 1]
    if twice:
        raise mistake(path, "path", f"line 1 names the column '{twice[0]}' twice")
    others = {name.column for name in columns}
    wanted = [name for name in header if name not in others] if list(features) == ["*"] else list(features)
    if not wanted:
        raise mistake(path, "features", "'*' stands for every column not named elsewhere, and there is none")
    check_columns([*(Named("features", name) for name in wanted), *columns], header, path)

    feature_places = [header.index(name) for name in wanted]
    column_places = {name.key: header.index(name.column) for name in columns}
    numbers = array("d")
    values: dict[str, list[str]] = {key: [] for key in column_places}
    for cells in lines:
        if not cells:
            continue
        line = lines.line_num  # type: ignore[attr-defined]
        if len(cells) != len(header):
            raise mistake(path, "path", f"line {line} has {len(cells)} cells, but line 1 names {len(header)} columns")
        for place in feature_places:
            numbers.append(_number(cells[place], path, line, header[place]))
        for key, place in column_places.items():
            cell = cells[place].strip()
            values[key].append("" if cell.lower() in _MISSING else cell)
    table = np.frombuffer(numbers, np.float64) if numbers else np.empty(0)
    return Rows(table.reshape(-1, len(wanted)), {key: np.array(cells, str) for key, cells in values.items()})


def _number(cell: str, path: Path, line: int, column: str) -> float:
    try:
        return float(cell)
    except ValueError:
        if cell.strip().lower() in _MISSING:
            return float("nan")
    raise ExperimentError(
        path,
        [
            f"task.data.features: line {line}, column '{column}': {cell!r} is no number; mend it, or name the columns "
            "that are features"
        ],
    )
