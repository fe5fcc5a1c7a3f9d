"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), binary version.

A file is records of one length: the label's byte (CIFAR-100: the coarse label's, then the fine label's), then 1,024
bytes of red, green and blue, each row by row.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import CIFARBinary
from fedhpc.data.sources.naming import mistake
from fedhpc.data.sources.pixels import in_unit

_SIDE, _CHANNELS = 32, 3
_PIXELS = _CHANNELS * _SIDE * _SIDE
_TRAIN = {"cifar10": [f"data_batch_{number}.bin" for number in range(1, 6)], "cifar100": ["train.bin"]}
_TEST = {"cifar10": "test_batch.bin", "cifar100": "test.bin"}
_NAMES = {"cifar10": "batches.meta.txt", "cifar100": "fine_label_names.txt"}
_CLASSES = {"cifar10": 10, "cifar100": 100}
_LABEL_BYTES = {"cifar10": 1, "cifar100": 2}


def load_cifar(settings: CIFARBinary) -> Examples:
    """Pictures [32, 32, 3] in 0..1, training ones first, in the files' order; of CIFAR-100, the labels are the fine
    ones. Classes bear the names that the folder tells, or their numbers where it tells none.

    Raises ExperimentError where a file is missing, is no whole number of records, or has a label out of range.
    """
    dataset, folder = settings.dataset, settings.folder
    files = [folder / name for name in (*_TRAIN[dataset], _TEST[dataset])]
    absent = [file.name for file in files if not file.is_file()]
    if absent:
        raise mistake(folder, "folder", f"there is no {', '.join(absent)}, which {dataset} has; fetch the data anew")
    names = _class_names(folder / _NAMES[dataset], _CLASSES[dataset])
    head = _LABEL_BYTES[dataset]
    parts = [_records(file, head) for file in files]
    sizes = [len(part) for part in parts]
    features = np.empty((sum(sizes), _SIDE, _SIDE, _CHANNELS), np.float32)
    labels = np.empty(len(features), np.int64)
    start = 0
    for file, part in zip(files, parts, strict=True):
        rows = slice(start, start + len(part))
        labels[rows] = part[:, head - 1]
        if len(part) and labels[rows].max() >= len(names):
            first = int(np.argmax(labels[rows] >= len(names)))
            told = f"record {first} has the label {labels[rows][first]}; {dataset} has the classes 0 to"
            raise mistake(file, "folder", f"{told} {len(names) - 1}")
        features[rows] = in_unit(part[:, head:].reshape(-1, _CHANNELS, _SIDE, _SIDE).transpose(0, 2, 3, 1))
        start = rows.stop
    return Examples(features, labels, np.arange(len(labels)) >= len(labels) - sizes[-1], names)


def _records(file: Path, head: int) -> NDArray[np.uint8]:
    """The file's records as they are mapped into memory, uint8 [records, head + 3072]."""
    size, record = file.stat().st_size, head + _PIXELS
    if size == 0 or size % record:
        raise mistake(file, "folder", f"the file has {size:,} bytes, which are no records of {record:,}; fetch it anew")
    return np.memmap(file, np.uint8, "r").reshape(-1, record).view(np.ndarray)


def _class_names(file: Path, classes: int) -> tuple[str, ...]:
    if not file.is_file():
        return tuple(map(str, range(classes)))
    try:
        names = tuple(file.read_text("utf-8").split())
    except UnicodeDecodeError:
        raise mistake(file, "folder", "the file is no text; fetch it anew") from None
    if len(set(names)) != classes:
        raise mistake(file, "folder", f"the file names {len(set(names))} classes, of which there are {classes}")
    return names
