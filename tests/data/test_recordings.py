"""Spectrograms by their formula, and the recordings that they are of."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.data.sources.recordings import log_mel, mel_bands, spectrogram
from fedhpc.mistakes import ExperimentError
from tests.waves import tone, write_wav


def _slaney(hertz):
    return 3 * hertz / 200 if hertz < 1000 else 15 + 27 * np.log(hertz / 1000) / np.log(6.4)


def _edges(bands):
    """f_0..f_(bands + 1), by bisection of the scale."""
    edges = []
    for mels in np.linspace(0, _slaney(8000), bands + 2):
        low, high = 0.0, 8000.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if _slaney(middle) < mels else (low, middle)
        edges.append(low)
    return np.array(edges)


def test_the_scale_is_slaneys():
    # 27 steps lead from 1,000 Hz to 6,400 Hz, and 8,000 Hz lies at 15 + 27 ln 8 / ln 6.4.
    assert _slaney(6400) == pytest.approx(42)
    assert _slaney(8000) == pytest.approx(45.245640471924965)
    bands, edges = mel_bands(32), _edges(32)
    peaks = np.argmax(bands, axis=1) * 7.8125
    np.testing.assert_allclose(peaks, edges[1:-1], atol=7.8125)
    # Area 1: the peak is two over the base, as far as a frequency lies near it.
    np.testing.assert_allclose(bands.sum(axis=1) * 7.8125, 1, atol=0.05)


@pytest.mark.parametrize("bands", [8, 256])
def test_no_band_is_without_a_frequency(bands):
    assert (mel_bands(bands).sum(axis=1) > 0).all()


def test_one_moment_by_the_formula_written_out():
    clip, bands = np.random.default_rng(3).normal(size=16_000), 8
    edges, frequencies = _edges(bands), np.arange(1025) * 7.8125
    around = np.concatenate([np.zeros(1024), clip, np.zeros(3000)])
    i = np.arange(2048)
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(1025), i) / 2048)
    strength = np.zeros((bands, bands))
    for moment in range(bands):
        part = around[2048 * moment : 2048 * moment + 2048] * (1 - np.cos(2 * np.pi * i / 2048)) / 2
        power = np.abs((fourier * part).sum(axis=1)) ** 2
        for band in range(bands):
            low, peak, high = edges[band : band + 3]
            for frequency, strong in zip(frequencies, power, strict=True):
                if low < frequency < high:
                    side = (frequency - low) / (peak - low) if frequency <= peak else (high - frequency) / (high - peak)
                    strength[band, moment] += side * 2 / (high - low) * strong
    decibels = 10 * np.log10(strength / strength.max())
    np.testing.assert_allclose(log_mel(clip, bands), 1 + np.maximum(decibels, -80) / 80, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 7, 1e3])
def test_loudness_makes_no_difference(scale):
    clip = tone(700) + tone(3000) / 9
    np.testing.assert_allclose(log_mel(clip * scale, 16), log_mel(clip, 16), atol=1e-5)


def test_silence_is_0():
    assert not log_mel(np.zeros(16_000), 32).any()


@pytest.mark.parametrize("hertz", [300, 1500, 6000])
def test_a_tone_is_loudest_in_its_band(tmp_path, hertz):
    write_wav(tmp_path / "tone.wav", tone(hertz))
    found = spectrogram(str(tmp_path / "tone.wav"), 32, "folder")
    assert (found.shape, found.dtype, found.max()) == ((32, 32), np.float32, 1)
    (band,) = set(np.argmax(found[:, 2:-2], axis=0))
    low, _, high = _edges(32)[band : band + 3]
    assert low < hertz < high


def test_shorter_clips_are_followed_by_silence_and_longer_ones_cut(tmp_path):
    for name, samples in (("long", 24_000), ("exact", 16_000), ("short", 8_000)):
        write_wav(tmp_path / name, tone(500, samples))
    long, exact, short = (spectrogram(str(tmp_path / name), 32, "folder") for name in ("long", "exact", "short"))
    assert long.tobytes() == exact.tobytes()
    # Sample 8,000 is in the window of the moments up to (8,000 + 1,024) / 512, of which there are 18.
    assert (short[:, 18:] == 0).all()
    np.testing.assert_allclose(short[:, :13], exact[:, :13], atol=1e-5)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"rate": 8_000}, "1 channel(s) of 16-bit samples at 8,000 Hz"),
        ({"channels": 2}, "2 channel(s) of 16-bit samples at 16,000 Hz"),
        ({"width": 1}, "1 channel(s) of 8-bit samples at 16,000 Hz"),
    ],
)
def test_other_recordings_are_refused(tmp_path, form, told):
    write_wav(tmp_path / "clip.wav", tone(500), **form)
    with pytest.raises(ExperimentError) as error:
        spectrogram(str(tmp_path / "clip.wav"), 32, "folder")
    mend = "it takes one channel of 16 bits at 16,000 Hz"
    assert error.value.mistakes == [f"task.data.folder: the recording is of {told}; {mend}"]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda content: content[:-2], "the recording ends early, after 15,999 samples of 16,000"),
        (lambda content: content[:-1], "the recording ends early, after 15,999 samples of 16,000"),
        (lambda content: content[:30], "the recording cannot be read as WAV: "),
        (lambda content: b"", "the recording cannot be read as WAV: it is damaged or ends early; fetch it anew"),
        (
            lambda content: b"MP3!" + content[4:],
            "the recording cannot be read as WAV: file does not start with RIFF id",
        ),
        (lambda content: content[:20] + b"\7\0" + content[22:], "the recording cannot be read as WAV: unknown format"),
    ],
)
def test_a_damaged_recording_is_told_in_a_sentence(tmp_path, damage, sentence):
    write_wav(tmp_path / "clip.wav", tone(500))
    (tmp_path / "clip.wav").write_bytes(damage((tmp_path / "clip.wav").read_bytes()))
    with pytest.raises(ExperimentError) as error:
        spectrogram(str(tmp_path / "clip.wav"), 32, "folder")
    (told,) = error.value.mistakes
    assert told.startswith(f"task.data.folder: {sentence}")


@given(st.binary(max_size=80), st.integers(0, 44))
def test_random_bytes_are_refused_in_a_sentence_or_read(tmp_path_factory, noise, kept):
    file = tmp_path_factory.getbasetemp() / "noise.wav"
    write_wav(file, tone(500, 40))
    file.write_bytes(file.read_bytes()[:kept] + noise)
    with suppress(ExperimentError):
        assert spectrogram(str(file), 8, "folder").shape == (8, 8)
