"""Recordings of a spoken word as pictures: the spectrogram in which FedScale (Lai et al. 2022) gives Google's Speech
Commands to its models, in our own code.

A clip x is one second at 16 kHz. Moment m of n is the power spectrum of 2,048 samples about sample m 16,384 / n, what
lies outside the clip being 0, under Hann's window w(i) = (1 - cos(2 pi i / 2048)) / 2:

    P(m, k) = |sum_i w(i) x(16384 m / n - 1024 + i) exp(-2 pi j i k / 2048)|^2,   k = 0..1024, at 7.8125 k Hz.

Band b of n weighs it by a triangle T_b(f) from f_b through f_(b+1) to f_(b+2), whose area is 1. The f_0..f_(n+1) lie
evenly from 0 to 8,000 Hz on Slaney's mel scale, which is 3 f / 200 below 1,000 Hz and 15 + 27 ln(f / 1000) / ln(6.4)
above. With S(b, m) = sum_k T_b(f_k) P(m, k), the spectrogram is decibels below its own largest value, of which 80 and
more are 0 and none is 1:

    1 + max(10 log10(S(b, m) / max S), -80) / 80.

A silent clip is all 0.
"""

import wave
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.naming import mistake

RATE = 16_000
"""Samples a second, and of a clip."""

_WINDOW = 2048
_SPAN = 16_384
_DECIBELS = 80.0
_LINEAR_HZ, _LINEAR_MELS, _STEP = 1000.0, 15.0, np.log(6.4) / 27


def spectrogram(file: str, bands: int, key: str) -> NDArray[np.float32]:
    """The recording's spectrogram [bands, moments], as many moments as bands, in 0..1. A shorter clip is followed by
    silence, a longer one cut. Raises ExperimentError, of ``task.data.<key>``, where it is no WAV file of one channel of
    16-bit samples at 16 kHz."""
    return log_mel(_clip(file, key), bands)


def log_mel(clip: NDArray[np.float64], bands: int) -> NDArray[np.float32]:
    """The formula above. ``clip``: [16,000], on any scale."""
    around = np.zeros(_SPAN + _WINDOW)
    around[_WINDOW // 2 : _WINDOW // 2 + RATE] = clip
    starts = np.arange(bands) * _SPAN // bands
    moments = around[starts[:, np.newaxis] + np.arange(_WINDOW)]
    window = (1 - np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)) / 2
    power = np.abs(np.fft.rfft(moments * window)) ** 2
    # Not by BLAS, whose threads would make the sums depend on the machine and cost more than they save here.
    strength = np.einsum("bk,mk->bm", mel_bands(bands), power)
    loudest = strength.max()
    if loudest == 0:
        return np.zeros((bands, bands), np.float32)
    decibels = 10 * np.log10(np.maximum(strength / loudest, 10 ** (-_DECIBELS / 10)))
    return np.asarray(1 + decibels / _DECIBELS, np.float32)


@lru_cache(maxsize=2)
def mel_bands(bands: int) -> NDArray[np.float64]:
    """The triangles T_b(f_k), [bands, 1025]."""
    edges = _hertz(np.linspace(0, _mels(RATE / 2), bands + 2))[:, np.newaxis]
    frequencies = np.arange(_WINDOW // 2 + 1) * RATE / _WINDOW
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    triangles: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])
    return triangles


def _mels(hertz: float) -> float:
    """Of a frequency of at least 1,000 Hz."""
    return float(_LINEAR_MELS + np.log(hertz / _LINEAR_HZ) / _STEP)


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _LINEAR_HZ * np.exp(_STEP * (np.maximum(mels, _LINEAR_MELS) - _LINEAR_MELS))
    return np.where(mels < _LINEAR_MELS, mels * _LINEAR_HZ / _LINEAR_MELS, above)


def _clip(file: str, key: str) -> NDArray[np.float64]:
    """One second of the recording, [16,000] in -1..1."""
    try:
        with wave.open(file, "rb") as recording:
            form, content = recording.getparams(), b""
            fits = (form.nchannels, form.sampwidth, form.framerate) == (1, 2, RATE)
            if fits:
                content = recording.readframes(min(form.nframes, RATE))
    except Exception as error:  # a damaged file makes wave raise almost anything
        told = str(error) or "it is damaged or ends early"
        raise mistake(Path(file), key, f"the recording cannot be read as WAV: {told}; fetch it anew") from None
    if not fits:
        told = f"{form.nchannels} channel(s) of {8 * form.sampwidth}-bit samples at {form.framerate:,} Hz"
        raise mistake(Path(file), key, f"the recording is of {told}; it takes one channel of 16 bits at {RATE:,} Hz")
    samples = np.frombuffer(content[: len(content) // 2 * 2], "<i2")
    if len(samples) < min(form.nframes, RATE):
        raise mistake(Path(file), key, f"the recording ends early, after {len(samples):,} samples of {form.nframes:,}")
    clip = np.zeros(RATE)
    clip[: len(samples)] = samples / 2**15
    return clip
