"""Columns and the keys that name them: what a sentence about either has in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedhpc.mistakes import ExperimentError, nearest


@dataclass(frozen=True)
class Named:
    """A column of a file, and the key under ``task.data`` that names it."""

    key: str
    column: str


def mistake(path: Path, key: str, sentence: str) -> ExperimentError:
    """The error that this data file is not as the key ``task.data.<key>`` says."""
    return ExperimentError(path, [f"task.data.{key}: {sentence}"])


def is_name(text: str) -> bool:
    """Whether a client can be called so: text that UTF-8 can write, and of which numpy drops nothing."""
    return text.rstrip("\0") == text != "" and not any("\ud800" <= character <= "\udfff" for character in text)


def check_columns(named: Sequence[Named], known: Sequence[str], path: Path) -> None:
    """Raises ExperimentError with one sentence for each named column that the file lacks."""
    mistakes = []
    for name in named:
        if name.column in known:
            continue
        has = f"it has {', '.join(map(repr, known))}" if known else "it has none"
        mistakes.append(
            f"task.data.{name.key}: the file has no column '{name.column}'{nearest(name.column, known)}; {has}"
        )
    if mistakes:
        raise ExperimentError(path, mistakes)
