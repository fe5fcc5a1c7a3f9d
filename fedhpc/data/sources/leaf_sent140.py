"""Sent140 as LEAF writes it: tweets, each a list of id, date, query, user, text and split, of a bad or a good mood.

Words are LEAF's (``utils/language_utils``): runs of letters, digits, underscores and apostrophes, and each of the
marks ``.,!?;``. LEAF numbers them by GloVe's file; here they are numbered by how often the training tweets have them,
as far as these are read, equally frequent ones by the alphabet. 0 is padding, behind the words, and the last number is
any other word.
"""

import re

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.leaf_json import User, of_user

CLASS_NAMES = ("negative", "positive")
_TEXT = 4
_WORD = re.compile(r"[\w']+|[.,!?;]")
_NONE = -1


class Tweets:
    """Tweets, whose words are numbered in the order in which they turn up until all have been read."""

    def __init__(self, sentence: int) -> None:
        self._sentence = sentence
        self._number: dict[str, int] = {}

    def read(self, user: User, key: str) -> NDArray[np.int32]:
        """The first ``sentence`` words of each of the user's tweets, [tweets, sentence], -1 behind a shorter one's.
        Raises ExperimentError."""
        numbers = np.full((len(user.x), self._sentence), _NONE, np.int32)
        for row, tweet in zip(numbers, user.x, strict=True):
            if not isinstance(tweet, list) or len(tweet) <= _TEXT or not isinstance(tweet[_TEXT], str):
                raise of_user(user, key, "an x is no list of id, date, query, user and text")
            words = _WORD.findall(tweet[_TEXT])[: self._sentence]
            row[: len(words)] = [self._number.setdefault(word, len(self._number)) for word in words]
        return numbers

    def numbered(
        self, read: NDArray[np.int32], training: NDArray[np.bool_], words: int
    ) -> tuple[NDArray[np.float32], tuple[str, ...]]:
        """All that was read, as numbers of the ``words`` most frequent of the training tweets, and what these numbers
        stand for: padding, the words, any other word."""
        occurring = read[training]
        counts = np.bincount(occurring[occurring != _NONE], minlength=len(self._number)).tolist()
        ranked = sorted(
            (word for word, n in self._number.items() if counts[n]), key=lambda w: (-counts[self._number[w]], w)
        )
        vocabulary = ("<padding>", *ranked[:words], "<unknown>")
        # One more at the end, where -1 finds the padding.
        final = np.full(len(self._number) + 1, len(vocabulary) - 1, np.float32)
        final[[self._number[word] for word in vocabulary[1:-1]]] = np.arange(1, len(vocabulary) - 1)
        final[_NONE] = 0
        return final[read], vocabulary
