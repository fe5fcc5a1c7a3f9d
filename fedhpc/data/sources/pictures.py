"""Pictures in files of their own."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedhpc.data.sources.naming import mistake
from fedhpc.data.sources.pixels import in_unit

_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
"""Pillow reads others by starting programs."""


def resized_picture(
    file: str, side: int, key: str, filtering: Image.Resampling = Image.Resampling.BILINEAR
) -> NDArray[np.float32]:
    """The picture in red, green and blue, brought to ``side`` by ``side`` whatever its own sides; [side, side, 3] in
    0..1. Raises ExperimentError, of ``task.data.<key>``, where it cannot be read."""
    return in_unit(np.asarray(_opened(file, key).resize((side, side), filtering)))


def middle_of_picture(file: str, side: int, key: str) -> NDArray[np.float32]:
    """The middle ``side`` by ``side`` pixels in red, green and blue, [side, side, 3] in 0..1. Raises ExperimentError,
    of ``task.data.<key>``, where the picture cannot be read or is smaller."""
    picture = _opened(file, key)
    width, height = picture.size
    if min(width, height) < side:
        raise mistake(Path(file), "side", f"the picture is {width} by {height}; lower side to {min(width, height)}")
    left, top = (width - side) // 2, (height - side) // 2
    return in_unit(np.asarray(picture.crop((left, top, left + side, top + side))))


def _opened(file: str, key: str) -> Image.Image:
    try:
        with Image.open(file, formats=_FORMATS) as picture:
            return picture.convert("RGB")
    except Exception as error:  # a damaged picture makes Pillow raise almost anything
        raise mistake(Path(file), key, f"the picture cannot be read: {error}; fetch it anew") from None
