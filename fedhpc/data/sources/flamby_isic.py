"""FLamby's Fed-ISIC2019 (Ogier du Terrail et al. 2022): pictures of skin lesions from six centres, eight classes."""

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import FLamby
from fedhpc.data.read_rows import ReadRows
from fedhpc.data.sources.inside import found_files
from fedhpc.data.sources.naming import Named, check_columns, mistake
from fedhpc.data.sources.pictures import middle_of_picture

CENTRES = ("BCN", "HAM_vidir_molemax", "HAM_vidir_modern", "HAM_rosendahl", "MSK", "HAM_vienna_dias")
CLASSES = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
"""ImageNet's, of red, green and blue."""

_COLUMNS = ("image", "target", "center", "fold")


def load_isic2019(settings: FLamby) -> Examples:
    """Pictures [side, side, 3], read when they are used, less ImageNet's mean and over its deviation; in the table's
    order and with its split. The centres are the clients.

    FLamby cuts its training pictures out of a turned and stretched one at random, and its held-out ones out of the
    middle; here all are cut out of the middle, and the task's ``pictures`` change those of training further. Raises
    ExperimentError where the table or a picture is not of the format.
    """
    path = settings.split
    assert path is not None  # without a table it was refused with the settings
    images, lines, targets, centres, held_out = [], [], [], [], []
    seen: dict[str, int] = {}
    for line, row in _lines(path):
        image = row["image"]
        if image in seen:
            raise mistake(path, "split", f"line {line}: '{image}' is there twice, first in line {seen[image]}")
        seen[image] = line
        targets.append(_number(row["target"], "target", len(CLASSES), line, path))
        centres.append(_number(row["center"], "center", len(CENTRES), line, path))
        if row["fold"] not in ("train", "test"):
            raise mistake(path, "split", f"line {line}: the fold '{row['fold']}' is neither train nor test")
        held_out.append(row["fold"] == "test")
        images.append(f"{image}.jpg")
        lines.append(f"line {line}")
    if not images:
        raise mistake(path, "split", "the file names no picture under its heading")
    files = found_files(settings.folder, images, lines, path, "split")
    return Examples(
        features=ReadRows(files, (settings.side, settings.side, 3), partial(_normalized, side=settings.side)),
        labels=np.array(targets, np.int64),
        held_out=np.array(held_out),
        class_names=CLASSES,
        clients=np.array(centres, np.int64),
        client_names=CENTRES,
    )


def _normalized(file: str, side: int) -> NDArray[np.float32]:
    return (middle_of_picture(file, side, "folder") - _MEAN) / _DEVIATION


def _lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as text:
            reader = csv.reader(text)
            heading = [name.strip() for name in next(reader, [])]
            check_columns([Named("split", column) for column in _COLUMNS], heading, path)
            for cells in filter(None, reader):
                if len(cells) != len(heading):
                    told = f"line {reader.line_num} has {len(cells)} cells, but line 1 names {len(heading)} columns"
                    raise mistake(path, "split", told)
                yield reader.line_num, dict(zip(heading, (cell.strip() for cell in cells), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise mistake(path, "split", f"the file cannot be read as CSV in UTF-8: {error}") from None


def _number(cell: str, column: str, numbers: int, line: int, path: Path) -> int:
    known = [str(number) for number in range(numbers)]
    if cell not in known:
        raise mistake(path, "split", f"line {line}: the {column} '{cell}' is out of range; it is 0 to {numbers - 1}")
    return known.index(cell)
