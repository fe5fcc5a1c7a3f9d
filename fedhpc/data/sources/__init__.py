"""Where examples come from: one file a source."""

from pathlib import Path

import numpy as np

from fedhpc.data.examples import Examples
from fedhpc.data.paths import find_data
from fedhpc.data.settings import DataFile, Digits, Source, Synthetic
from fedhpc.data.sources.data_file import load_data_file
from fedhpc.data.sources.digits import load_digits
from fedhpc.data.sources.synthetic import generate_synthetic
from fedhpc.data.sources.text_file import load_text_file
from fedhpc.mistakes import ExperimentError


def load(source: Source, keeps_clients: bool, generator: np.random.Generator, base: Path) -> Examples:
    """The source's examples: at least one for training, and at least one held out.

    ``keeps_clients``: whether the data's own clients are used, so that a held-out share is one of each client's
    examples. ``generator`` draws the held-out examples where the data do not name them. Paths resolve against
    ``base``. Raises ExperimentError where the data are not as the settings say.
    """
    examples = _load(source, keeps_clients, generator, base)
    held_out, total = np.count_nonzero(examples.held_out), len(examples.held_out)
    if held_out in (0, total):
        key = "held_out" if getattr(source, "held_out", None) is not None else "features"
        which = "none" if held_out == 0 else "every one"
        raise ExperimentError(
            base, [f"task.data.{key}: of {total:,} examples {which} is held out; it takes some of both"]
        )
    return examples


def _load(source: Source, keeps_clients: bool, generator: np.random.Generator, base: Path) -> Examples:
    if isinstance(source, Digits):
        return load_digits(source, generator)
    if isinstance(source, Synthetic):
        return generate_synthetic(source)
    path = find_data(source.path, base)
    if isinstance(source, DataFile):
        return load_data_file(source, path, keeps_clients, generator)
    return load_text_file(source, path)
