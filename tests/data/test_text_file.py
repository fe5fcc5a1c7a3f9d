import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.data.settings import TextFile
from fedhpc.data.sources import load
from fedhpc.data.sources.text_file import window_starts, with_single_spaces
from fedhpc.mistakes import ExperimentError


def _load(folder, text, offsets, **settings):
    with h5py.File(folder / "d.h5", "w") as file:
        file["text"] = np.frombuffer(text, np.uint8)
        file["at"] = offsets
    source = TextFile(source="text", path="d.h5", text="text", offsets="at", **settings)
    source = source.model_copy(update={"path": folder / source.path})
    return load(source, True, (), np.random.default_rng(0), folder)


def test_windows_and_next_characters_of_each_document(tmp_path):
    # Document 0 is "abcabcab", document 1 is too short for a window, document 2 is "ba ab" once its spaces are single.
    data = _load(tmp_path, b"abcabcabcaba\n\n\nab", [0, 8, 10, 17], window=3, held_out=0.2)
    assert data.class_names == (" ", "a", "b", "c")
    words = ["".join(data.class_names[int(code)] for code in codes) for codes in data.features]
    following = [data.class_names[label] for label in data.labels]
    # Document 0 has windows 0 to 4; the fifth, at 4, is held out, and of the others only that at 0 ends before it.
    assert list(zip(words, following, data.clients.tolist(), data.held_out.tolist(), strict=True)) == [
        ("abc", "a", 0, False),
        ("bca", "b", 0, True),
        ("ba ", "a", 2, False),
        ("a a", "b", 2, False),
    ]
    assert data.client_names == ("0", "1", "2")


def test_lines_are_joined_and_spaces_made_single():
    assert with_single_spaces(b"one\n two   three\n") == b"one two three "


@given(
    st.integers(0, 300), st.integers(1, 20), st.none() | st.integers(1, 50), st.floats(0.01, 0.99), st.integers(1, 30)
)
def test_no_training_window_touches_a_held_out_one(characters, window, limit, share, stride):
    training, held_out = window_starts(characters, window, limit, share, stride)
    possible = len(range(0, max(characters - window, 0), stride))
    starts = [*training.tolist(), *held_out.tolist()]
    assert starts == sorted(set(starts))
    assert all(0 <= start < characters - window for start in starts)
    assert all(start % stride == 0 for start in starts)
    assert len(held_out) == round(share * min(possible, limit or possible))
    if len(training) and len(held_out):
        assert training[-1] + window < held_out[0]


@pytest.mark.parametrize(
    ("text", "offsets", "sentence"),
    [
        (b"abcdef", [0, 3, 6], "task.data.window: no document is longer than 5 characters"),
        (b"abcdef", [0, 9], "task.data.offsets: 'at' does not divide 'text'; it takes ascending indices"),
        (b"abcdef", [0, 4, 2], "task.data.offsets: 'at' does not divide 'text'; it takes ascending indices"),
    ],
)
def test_mistakes_in_a_text(tmp_path, text, offsets, sentence):
    with pytest.raises(ExperimentError) as error:
        _load(tmp_path, text, offsets, window=5)
    assert error.value.mistakes == [sentence]
