"""Vectors of words from a text file: a line a word, the word and its numbers with blanks between (GloVe: Pennington et
al. 2014)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.mistakes import ExperimentError

_KEY = "task.model.vectors"


def word_vectors(path: Path, words: Sequence[str], width: int) -> dict[int, NDArray[np.float32]]:
    """Each known word's number -> its vector, float32 [width]. A word that the file does not know as it is written has
    the vector of its small letters, if that is there: GloVe's own texts were all in small letters.

    Raises ExperimentError where the file cannot be read, has a line of another form, or knows none of the words.
    """
    wanted = {form for word in words for form in (word, word.lower())}
    found: dict[str, NDArray[np.float32]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                word, _, numbers = line.partition(" ")
                if word in wanted:
                    found[word] = _vector(path, number, numbers, width)
    except OSError as error:
        raise ExperimentError(path, [f"{_KEY}: the file cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ExperimentError(path, [f"{_KEY}: the file is no text in UTF-8; give GloVe's file, unpacked"]) from None
    forms = [word if word in found else word.lower() for word in words]
    vectors = {number: found[form] for number, form in enumerate(forms) if form in found}
    if not vectors:
        raise ExperimentError(
            path, [f"{_KEY}: the file knows none of the data's {len(words)} words; give GloVe's file, a word a line"]
        )
    return vectors


def _vector(path: Path, line: int, numbers: str, width: int) -> NDArray[np.float32]:
    try:
        vector = np.array(numbers.split(), np.float32)
    except ValueError:
        vector = np.full(width, np.nan, np.float32)
    if len(vector) != width:
        raise ExperimentError(
            path, [f"{_KEY}: line {line} has {len(vector)} numbers, and the model's words have {width}; give another"]
        )
    if not np.isfinite(vector).all():
        raise ExperimentError(path, [f"{_KEY}: line {line} holds what is no finite number; fetch the file anew"])
    return vector
