"""The file of words and their counts that goes with TFF's StackOverflow: a word and a number a line."""

import heapq
from collections.abc import Iterator
from pathlib import Path

from fedhpc.data.sources.naming import mistake

_DIGITS = 18
"""Of a count; Python refuses numbers of thousands of them."""


def most_frequent_words(path: Path, key: str, words: int) -> list[bytes]:
    """The ``words`` most frequent words, the most frequent first, and of equally frequent ones the earlier in the
    file. Raises ExperimentError where the file is no such list, or has fewer words."""
    try:
        chosen = heapq.nlargest(words, _lines(path, key), key=lambda line: line[1])
    except OSError as error:
        raise mistake(path, key, f"the file cannot be read: {error.strerror}") from None
    if len(chosen) < words:
        raise mistake(path, "words", f"{words:,} exceeds the file's {len(chosen):,} words; lower it")
    found = [word for word, _ in chosen]
    if len(set(found)) < words:
        twice = next(word for word in found if found.count(word) > 1)
        raise mistake(path, key, f"the word '{twice.decode('utf-8', 'replace')}' stands there twice")
    return found


def _lines(path: Path, key: str) -> Iterator[tuple[bytes, int]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            cells = line.split()
            if len(cells) != 2 or not cells[1].isdigit() or len(cells[1]) > _DIGITS:
                raise mistake(path, key, f"line {number} is no word and its count, as 'the 341'")
            yield cells[0], int(cells[1])
