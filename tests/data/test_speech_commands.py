"""Google's Speech Commands in its true layout."""

import os

import numpy as np
import pytest
from pydantic import ValidationError

from fedhpc.data.public_settings import SpeechCommands
from fedhpc.data.sources import load
from fedhpc.data.sources.recordings import spectrogram
from fedhpc.mistakes import ExperimentError
from tests.rounds import lives_two_rounds
from tests.waves import tone, write_wav

CLIPS = {
    "yes/0a7c2a8d_nohash_0.wav": 400,
    "yes/0a7c2a8d_nohash_1.wav": 410,
    "yes/fffcabd1_nohash_0.wav": 420,
    "no/0a7c2a8d_nohash_0.wav": 900,
    "no/105a0eea_nohash_0.wav": 920,
    "_background_noise_/pink_noise.wav": 100,
}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "speech"
    for name, hertz in CLIPS.items():
        write_wav(folder / name, tone(hertz))
    (folder / "testing_list.txt").write_text("yes/fffcabd1_nohash_0.wav\n")
    (folder / "validation_list.txt").write_text("no/105a0eea_nohash_0.wav\n")
    (folder / "README.md").write_text("# Speech Commands Data Set v0.02\n")
    (folder / "yes" / ".DS_Store").write_bytes(b"\0")
    return folder


def _load(folder, **settings):
    source = SpeechCommands(source="speech_commands", folder=folder, **settings)
    return load(source, True, (), np.random.default_rng(0), folder)


def test_words_speakers_and_the_two_lists(folder):
    data = _load(folder, bands=16)
    assert data.class_names == ("no", "yes")
    assert data.labels.tolist() == [0, 0, 1, 1, 1]
    # What the validation list names is for training.
    assert data.held_out.tolist() == [False, False, False, False, True]
    assert data.client_names == ("0a7c2a8d", "105a0eea")
    assert data.clients.tolist() == [0, 1, 0, 0, -1]
    assert data.features.shape == (5, 16, 16)
    expected = [spectrogram(str(folder / name), 16, "folder") for name in sorted(CLIPS) if name.startswith("yes/")]
    np.testing.assert_array_equal(data.features[np.array([2, 3, 4])], expected)


def test_a_list_that_begins_with_a_byte_order_mark(folder):
    (folder / "testing_list.txt").write_bytes(b"\xef\xbb\xbfyes/fffcabd1_nohash_0.wav\r\nno/0a7c2a8d_nohash_0.wav\r\n")
    assert _load(folder).held_out.tolist() == [True, False, False, False, True]


def test_some_words(folder):
    write_wav(folder / "up" / "105a0eea_nohash_0.wav", tone(100))
    data = _load(folder, words=["yes", "up"])
    assert data.class_names == ("up", "yes")
    assert data.client_names == ("0a7c2a8d", "105a0eea")


def _add(name):
    return lambda folder: write_wav(folder / name, tone(100))


def _list(content):
    return lambda folder: (folder / "testing_list.txt").write_bytes(content)


@pytest.mark.parametrize(
    ("change", "settings", "sentence"),
    [
        (_add("no/unnamed.wav"), {}, "folder: the file's name tells no speaker, as <speaker>_nohash_<number>.wav"),
        (
            _add(os.fsdecode(b"no/\xff_nohash_0.wav")),
            {},
            "folder: the file's name tells no speaker, as <speaker>_nohash",
        ),
        (
            _add(os.fsdecode(b"\xff/a_nohash_0.wav")),
            {},
            "folder: the file's name tells no speaker, as <speaker>_nohash",
        ),
        (lambda folder: (folder / "up").mkdir(), {}, "folder: the folder of this word holds no WAV file; fetch"),
        (_list(b"yes/ffffffff_nohash_0.wav\n"), {}, "folder: there is no 'yes/ffffffff_nohash_0.wav', which the list"),
        (_list(b"../yes.wav\n"), {}, "folder: '../yes.wav' leaves the folder; it takes paths within "),
        (_list(b"/etc/passwd\n"), {}, "folder: '/etc/passwd' leaves the folder; it takes paths within "),
        (_list(b"\xff\xfe"), {}, "folder: the list of held-out recordings cannot be read: "),
        (_list(b""), {}, "features: of 5 examples none is held out; it takes some of both"),
        (
            lambda folder: None,
            {"words": ["yes", "noo"]},
            "words: there is no word 'noo'; did you mean 'no'?; there are",
        ),
    ],
)
def test_a_bad_folder_is_told_in_a_sentence(folder, change, settings, sentence):
    change(folder)
    with pytest.raises(ExperimentError) as error:
        _load(folder, **settings)
    (told,) = error.value.mistakes
    assert told.startswith(f"task.data.{sentence}")


def test_an_archive_that_is_not_unpacked(tmp_path):
    (tmp_path / "speech_commands_v0.02.tar.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(ExperimentError, match="folder: it is a file; unpack it, and name the folder"):
        _load(tmp_path / "speech_commands_v0.02.tar.gz")


def test_a_folder_without_words(tmp_path):
    with pytest.raises(ExperimentError, match="the folder holds no folders of words; name the one that does"):
        _load(tmp_path)


def test_a_word_given_twice():
    with pytest.raises(ValidationError, match="no is given twice; name each word once"):
        SpeechCommands(source="speech_commands", folder=".", words=["no", "yes", "no"])


def test_words_that_yaml_takes_for_true_and_false():
    with pytest.raises(ValidationError, match="yes, no, on and off mean true and false in YAML; write them in quotes"):
        SpeechCommands(source="speech_commands", folder=".", words=[False, True, "up"])


def test_a_damaged_recording_leaves_nothing_half_made(folder, opened):
    content = (folder / "no" / "0a7c2a8d_nohash_0.wav").read_bytes()
    (folder / "no" / "0a7c2a8d_nohash_0.wav").write_bytes(content[:1000])
    with pytest.raises(ExperimentError) as error:
        opened({"source": "speech_commands", "folder": "speech"})
    assert error.value.path == folder / "no" / "0a7c2a8d_nohash_0.wav"
    assert not list((folder.parent / "prepared").iterdir())


def test_a_federation_of_speakers(folder):
    lives_two_rounds(folder.parent, {"source": "speech_commands", "folder": "speech", "bands": 8})
