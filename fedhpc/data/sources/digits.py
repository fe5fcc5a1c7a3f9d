"""The UCI handwritten digits (Alpaydin and Kaynak 1998), test part, as scikit-learn ships them."""

import numpy as np

from fedhpc.data.examples import Examples
from fedhpc.data.held_out import share_of_all
from fedhpc.data.settings import Digits


def load_digits(settings: Digits, generator: np.random.Generator) -> Examples:
    """1,797 images of 8 by 8 pixels in 0..1, with ``generator`` drawing the held-out ones."""
    import sklearn.datasets  # takes a second to import

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    return Examples(
        features=(images.reshape(-1, 8, 8) / 16).astype(np.float32),
        labels=labels.astype(np.int64),
        held_out=share_of_all(settings.held_out, len(labels), generator),
        class_names=tuple("0123456789"),
    )
