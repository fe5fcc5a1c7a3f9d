"""Random bytes for dropout, keyed like every stream: a participation's own, drawn step by step.

A CPU takes them from numpy's Philox, four times as fast as torch's generator; a GPU draws them where it needs them,
from torch's own Philox, seeded by the participation's stream.
"""

from typing import Protocol

import numpy as np
import torch

from fedhpc.streams import ParticipationStream, Purpose

STEPS_AT_ONCE = 8
"""A GPU's generator gives other bytes where it draws more of them at once; so it always draws for so many steps."""


class ClientNoise(Protocol):
    """One participation's random bytes."""

    def take(self, steps: int) -> torch.Tensor:
        """The bytes of the next steps, uint8 [steps, bytes a step]."""
        ...


class NoiseSource:
    """The dropout streams of a trial on one device."""

    def __init__(self, seed: int, trial: int, device: torch.device) -> None:
        self._streams = ParticipationStream(seed, trial, Purpose.DROPOUT)
        self._device = device

    def of(self, client: int, participation: int, step_bytes: int) -> ClientNoise:
        """The bytes of (client, participation), from the first."""
        stream = self._streams.own(client, participation)
        if self._device.type == "cpu":
            return _FromNumpy(stream, step_bytes)
        return _FromDevice(int(stream.integers(2**63)), step_bytes, self._device)


class _FromNumpy:
    def __init__(self, stream: np.random.Generator, step_bytes: int) -> None:
        self._stream, self._bytes = stream, step_bytes

    def take(self, steps: int) -> torch.Tensor:
        words = self._stream.integers(0, 2**64, (steps, -(-self._bytes // 8)), dtype=np.uint64)
        return torch.from_numpy(words.view(np.uint8))[:, : self._bytes]


class _FromDevice:
    def __init__(self, seed: int, step_bytes: int, device: torch.device) -> None:
        self._generator = torch.Generator(device)
        self._generator.manual_seed(seed)
        self._bytes, self._device = step_bytes, device

    def take(self, steps: int) -> torch.Tensor:
        """At most STEPS_AT_ONCE steps, and fewer at the end only."""
        shape = (STEPS_AT_ONCE, self._bytes)
        drawn = torch.randint(0, 256, shape, dtype=torch.uint8, device=self._device, generator=self._generator)
        return drawn[:steps]
