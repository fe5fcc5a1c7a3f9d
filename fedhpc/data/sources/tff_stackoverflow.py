"""What is read of TFF's StackOverflow: sentences as numbers of words, and the next ones (Reddi et al. 2021).

Numbers are those of TFF's own preparation (``baselines/stackoverflow/word_prediction_preprocessing``): 0 pads, 1 to
``words`` are the words, the most frequent first, and then come any other word, the beginning and the end. A sentence is
split at single spaces and cut to ``sentence`` words; one that is shorter is given the end; the beginning stands before
all. So an example is ``sentence`` numbers, from the beginning on, and its labels the same moved by one.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.tff_reading import Read
from fedhpc.data.sources.tff_split import Field
from fedhpc.mistakes import nearest

PADDING = 0
MARKS_AFTER_WORDS = ("<unknown>", "<beginning>", "<end>")
_TAG_LISTS_REMEMBERED = 2**16
"""The sentences of a post have its tags in common."""


class StackOverflow:
    """``words``: the vocabulary, the most frequent first. ``tags``: those of the straggler clients. Spaces in tags do
    not count, as the data write ``c + +`` for c++."""

    def __init__(self, words: Sequence[bytes], sentence: int, tags: Sequence[str]) -> None:
        self.example = self.places = (sentence,)
        self.fields: tuple[Field, ...] = (Field("tokens", "text", ()),)
        if tags:
            self.fields += (Field("tags", "text", ()),)
        self._words = words
        self._number = {word: number for number, word in enumerate(words, 1)}
        self._unknown, self._beginning, self._end = (len(words) + 1 + mark for mark in range(3))
        self.unscored = (PADDING, self._unknown, self._beginning, self._end)
        self._wanted = {_without_spaces(tag.encode()): tag for tag in tags}
        self._seen: set[bytes] = set()
        self._bears = lru_cache(_TAG_LISTS_REMEMBERED)(self._bears_one_of)

    def read(self, columns: Mapping[str, Any]) -> Read:
        (sentence,), texts = self.example, columns["tokens"]
        number, unknown, padded = self._number.get, self._unknown, [self._end] + [PADDING] * sentence
        rows = []
        for text in texts:
            row = [self._beginning, *[number(word, unknown) for word in text.split(b" ")[:sentence]]]
            rows.append(row + padded[: sentence + 1 - len(row)])
        numbers = np.array(rows, np.int64)
        following = numbers[:, 1:]
        tagged = np.array([self._bears(tags) for tags in columns["tags"]], bool) if self._wanted else None
        labels = np.where(following == PADDING, -1, following)
        return Read(numbers[:, :-1].astype(np.float32), labels, tagged)

    def class_names(self, labels: NDArray[np.int64]) -> tuple[str, ...]:
        return ("<padding>", *(word.decode("utf-8", "replace") for word in self._words), *MARKS_AFTER_WORDS)

    def missing_tags(self) -> Sequence[str]:
        known = sorted(tag.decode("utf-8", "replace") for tag in self._seen)
        return [f"'{tag}'{nearest(tag, known)}" for key, tag in self._wanted.items() if key not in self._seen]

    def _bears_one_of(self, tags: bytes) -> bool:
        borne = set(_without_spaces(tags).split(b"|"))
        self._seen |= borne
        return not borne.isdisjoint(self._wanted)


def _without_spaces(tags: bytes) -> bytes:
    return tags.replace(b" ", b"")
