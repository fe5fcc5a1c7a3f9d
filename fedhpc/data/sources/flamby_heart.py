"""FLamby's Fed-Heart-Disease (Ogier du Terrail et al. 2022): the processed files of UCI's four hospitals (Janosi et al.
1988), and whether a patient's heart is ill.

A line has 13 features and the diagnosis, 0 to 4. The last three features (slope, ca, thal) are left out, then the
lines with a '?': of 303, 294, 123 and 200 patients 303, 261, 46 and 130 remain. The label is whether the diagnosis is
above 0.
"""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import FLamby
from fedhpc.data.sources.naming import mistake

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")

_CELLS, _DIAGNOSIS, _LEFT_OUT = 14, 13, (10, 11, 12)
_PLAIN = (0, 1, 3, 4, 5, 7, 8, 9)
_LEVELS = {2: (1, 2, 3, 4), 6: (0, 1, 2)}
"""Chest pain and resting ECG are kinds: each but the first becomes a feature, which is 1 where it is that kind."""

_TRAINING = 0.66
_SPLIT_SEED = 43


def load_heart_disease(settings: FLamby) -> Examples:
    """13 features: eight as they are and five of kinds, less the mean and over the deviation (that of n - 1) of the
    hospital's own training examples; one that is constant there is 0. FLamby's split: of each hospital 66 % are for
    training, drawn by scikit-learn's ``train_test_split`` with seed 43, stratified by label where each label has more
    than two patients.

    Raises ExperimentError where a file is missing or a line is not of the format.
    """
    features, labels, held_out, clients = [], [], [], []
    for client, hospital in enumerate(HOSPITALS):
        path = settings.folder / f"processed.{hospital}.data"
        rows = _rows(path)
        ill = (rows[:, _DIAGNOSIS] > 0).astype(np.int64)
        testing = _held_out(ill)
        features.append(_normalized(_features(rows, path), ~testing))
        labels.append(ill)
        held_out.append(testing)
        clients.append(np.full(len(rows), client))
    return Examples(
        features=np.concatenate(features),
        labels=np.concatenate(labels),
        held_out=np.concatenate(held_out),
        class_names=("healthy", "ill"),
        clients=np.concatenate(clients),
        client_names=HOSPITALS,
    )


def _rows(path: Path) -> NDArray[np.float64]:
    """The complete lines, [lines, 14], in which what is left out is NaN."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise mistake(path, "folder", f"the file cannot be read: {getattr(error, 'strerror', None) or error}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != _CELLS:
            raise mistake(path, "folder", f"line {number} has {len(cells)} cells; a patient has {_CELLS}")
        for place in _LEFT_OUT:
            cells[place] = "nan"
        if "?" not in cells:
            rows.append([_number(cell, place, number, path) for place, cell in enumerate(cells)])
    if len(rows) < 3:
        raise mistake(path, "folder", f"the file has {len(rows)} complete lines; FLamby's split takes at least 3")
    return np.array(rows)


def _number(cell: str, place: int, line: int, path: Path) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) and place not in _LEFT_OUT:
        raise mistake(path, "folder", f"line {line}: {cell!r} is no number; a value that is missing is a '?'")
    if place == _DIAGNOSIS and number not in range(5):
        raise mistake(path, "folder", f"line {line}: the diagnosis {cell} is out of range; it is 0 to 4")
    return number


def _features(rows: NDArray[np.float64], path: Path) -> NDArray[np.float64]:
    kinds = []
    for place, levels in _LEVELS.items():
        strange = np.setdiff1d(rows[:, place], levels)
        if len(strange):
            told = f"column {place + 1} holds {strange[0]:g}, which is none of {', '.join(map(str, levels))}"
            raise mistake(path, "folder", told)
        kinds.append(rows[:, place, np.newaxis] == levels[1:])
    return np.concatenate([rows[:, _PLAIN], *kinds], axis=1)


def _held_out(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of a hospital's patients FLamby holds out."""
    # Here, since it takes a second that no one else should wait for.
    from sklearn.model_selection import train_test_split

    patients = np.bincount(labels, minlength=2)
    stratify = labels if (patients > 2).all() else None
    everyone = np.arange(len(labels))
    _, testing = train_test_split(
        everyone, train_size=_TRAINING, test_size=1 - _TRAINING, random_state=_SPLIT_SEED, stratify=stratify
    )
    return np.isin(everyone, testing)


def _normalized(features: NDArray[np.float64], training: NDArray[np.bool_]) -> NDArray[np.float32]:
    known = features[training]
    constant = (known == known[0]).all(axis=0)
    deviation = np.where(constant, np.inf, known.std(axis=0, ddof=1) if len(known) > 1 else np.inf)
    return np.asarray((features - known.mean(axis=0)) / deviation, np.float32)
