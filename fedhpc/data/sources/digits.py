"""The UCI handwritten digits (Alpaydin and Kaynak 1998), test part, as scikit-learn ships them."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fedhpc.data.examples import Examples
from fedhpc.data.held_out import share_of_all
from fedhpc.data.settings import Digits


def load_digits(settings: Digits, generator: np.random.Generator) -> Examples:
    """1,797 images of 8 by 8 pixels in 0..1, with ``generator`` drawing the held-out ones."""
    rows = np.loadtxt(_file(), dtype=np.int64, delimiter=",")
    images, labels = rows[:, :-1], rows[:, -1]
    return Examples(
        features=(images.reshape(-1, 8, 8) / 16).astype(np.float32),
        labels=labels,
        held_out=share_of_all(settings.held_out, len(labels), generator),
        class_names=tuple("0123456789"),
    )


def _file() -> Path:
    """The file within scikit-learn, which is found without the import that takes more than a second."""
    found = find_spec("sklearn")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
