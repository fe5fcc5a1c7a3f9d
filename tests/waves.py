"""WAV files as Google's Speech Commands has them, written by the standard library."""

import wave
from pathlib import Path

import numpy as np


def write_wav(file: Path, samples: np.ndarray, rate: int = 16_000, width: int = 2, channels: int = 1) -> None:
    """``samples`` in -1..1, as integers of ``width`` bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(file), "wb") as recording:
        recording.setnchannels(channels)
        recording.setsampwidth(width)
        recording.setframerate(rate)
        recording.writeframes(np.round(samples * 32_767).astype("<i2").tobytes())


def tone(hertz: float, samples: int = 16_000) -> np.ndarray:
    """A sine of half the largest strength."""
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(samples) / 16_000)
