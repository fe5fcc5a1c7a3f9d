"""Where examples come from: one file a source."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import IDX, LEAF, TFF, CIFARBinary, FedScaleFolder, FLamby, SpeechCommands
from fedhpc.data.settings import DataFile, Digits, Source, Synthetic, TextFile
from fedhpc.data.sources.cifar import load_cifar
from fedhpc.data.sources.data_file import load_data_file
from fedhpc.data.sources.digits import load_digits
from fedhpc.data.sources.fedscale import load_fedscale
from fedhpc.data.sources.flamby_heart import load_heart_disease
from fedhpc.data.sources.flamby_isic import load_isic2019
from fedhpc.data.sources.flamby_ixi import load_ixi
from fedhpc.data.sources.leaf import load_leaf
from fedhpc.data.sources.mnist import load_idx
from fedhpc.data.sources.speech_commands import load_speech_commands
from fedhpc.data.sources.synthetic import generate_synthetic
from fedhpc.data.sources.text_file import load_text_file
from fedhpc.data.sources.tff import load_tff
from fedhpc.mistakes import ExperimentError


def load(
    source: Source, keeps_clients: bool, tags: Sequence[str], generator: np.random.Generator, base: Path
) -> Examples:
    """The source's examples: at least one for training, and at least one held out.

    ``keeps_clients``: whether the data's own clients are used, so that a held-out share is one of each client's
    examples. ``tags``: those of the straggler clients, of which ``tagged`` tells. ``generator`` draws the held-out
    examples where the data do not name them. The source's paths are as they were found. Raises ExperimentError where
    the data are not as the settings say; what is wrong with no file is told of ``base``.
    """
    examples = _load(source, keeps_clients, tags, generator)
    held_out, total = np.count_nonzero(examples.held_out), len(examples.held_out)
    if held_out in (0, total):
        key = "held_out" if getattr(source, "held_out", None) is not None else "features"
        which = "none" if held_out == 0 else "every one"
        raise ExperimentError(
            base, [f"task.data.{key}: of {total:,} examples {which} is held out; it takes some of both"]
        )
    return examples


def _load(source: Source, keeps_clients: bool, tags: Sequence[str], generator: np.random.Generator) -> Examples:
    match source:
        case Digits():
            return load_digits(source, generator)
        case Synthetic():
            return generate_synthetic(source)
        case DataFile():
            return load_data_file(source, source.path, keeps_clients, tags, generator)
        case TextFile():
            return load_text_file(source, source.path)
        case IDX():
            return load_idx(source)
        case CIFARBinary():
            return load_cifar(source)
        case SpeechCommands():
            return load_speech_commands(source)
        case FedScaleFolder():
            return load_fedscale(source)
        case FLamby(dataset="heart_disease"):
            return load_heart_disease(source)
        case FLamby(dataset="ixi"):
            return load_ixi(source)
        case FLamby():
            return load_isic2019(source)
        case TFF():
            return load_tff(source, tags)
        case LEAF():
            return load_leaf(source, keeps_clients, generator)
