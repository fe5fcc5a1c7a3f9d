"""How pictures are changed before they are used: a part of them, mirrored or not, on one scale.

What is drawn for training is keyed by (client, participation): one 64-bit word for each place of each mini-batch, in
order, those that fill a batch up included. So it does not depend on the form of a step, nor on what is computed beside.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from fedhpc.task import Pictures

_BITS = 31
_CHANCES = 1 << _BITS
"""Of a word the lowest 31 bits say how far from the top a part begins, the next 31 how far from the left, and the
highest whether it is mirrored. A place is likelier than another by at most the number of places in 2^31."""


class PictureChanges:
    """``settings`` for pictures of ``shape``, [height, width] or [height, width, channels]."""

    def __init__(self, settings: Pictures, shape: tuple[int, ...]) -> None:
        self._settings = settings
        self._height, self._width, *_ = shape
        self._rows, self._columns, *_ = settings.cropped(shape)

    def draw(self, stream: np.random.Generator, steps: int, batch: int) -> NDArray[np.int64]:
        """What is done to the pictures of the next steps: int64 [steps, batch, 3], the first row and column of a part,
        and whether it is mirrored, 0 or 1."""
        words = stream.integers(0, 2**64, (steps, batch), dtype=np.uint64)
        down, right = words % _CHANCES, (words >> _BITS) % _CHANCES
        top = down * np.uint64(self._height - self._rows + 1) >> _BITS
        left = right * np.uint64(self._width - self._columns + 1) >> _BITS
        mirrored = words >> 63 if self._settings.flip else np.zeros_like(words)
        return np.stack([top, left, mirrored], -1).astype(np.int64)

    def train(self, source: torch.Tensor, rows: torch.Tensor, drawn: NDArray[np.int64]) -> torch.Tensor:
        """The pictures ``source[rows]``, int64 [pictures], as ``drawn``, int64 [pictures, 3], has them."""
        top, left, mirrored = torch.from_numpy(drawn).to(source.device).unbind(1)
        down, across = self._steps(source.device)
        columns = torch.where(mirrored[:, None] == 1, self._columns - 1 - across, across) + left[:, None]
        parts = source[rows[:, None, None], (down + top[:, None])[:, :, None], columns[:, None, :]]
        return self._on_one_scale(parts)

    def evaluate(self, pictures: torch.Tensor) -> torch.Tensor:
        """The middle parts of ``pictures``, float32 [pictures, *shape]; where it cannot be the middle, the part is
        nearer to the top and the left."""
        top, left = (self._height - self._rows) // 2, (self._width - self._columns) // 2
        return self._on_one_scale(pictures[:, top : top + self._rows, left : left + self._columns])

    def _steps(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.arange(self._rows, device=device), torch.arange(self._columns, device=device)

    def _on_one_scale(self, pictures: torch.Tensor) -> torch.Tensor:
        """Less the mean and over the deviation of the settings, channel by channel; or each of mean 0 and deviation 1,
        over all its n numbers, where a deviation below 1 / sqrt(n) counts as that, so that a picture of one colour is 0
        (TensorFlow's per_image_standardization, which Reddi et al. 2021 use)."""
        if self._settings.mean is not None:
            mean, deviation = (pictures.new_tensor(given) for given in (self._settings.mean, self._settings.deviation))
            return (pictures - mean) / deviation
        if not self._settings.standardize:
            return pictures
        numbers = pictures.flatten(1)
        away = numbers - numbers.mean(1, keepdim=True)
        deviation = away.square().mean(1, keepdim=True).sqrt()
        return (away / deviation.clamp(min=1 / math.sqrt(numbers.shape[1]))).view(pictures.shape)
