"""MNIST's files and QMNIST's, written here byte by byte."""

import gzip
import struct
from contextlib import suppress

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.data.public_settings import IDX
from fedhpc.data.sources import load
from fedhpc.data.sources.idx import LABELS as LABELS_OF_MNIST
from fedhpc.data.sources.idx import PICTURES, read_idx
from fedhpc.mistakes import ExperimentError
from tests.rounds import lives_two_rounds

PIXELS = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3) * 8
TEST_PIXELS = np.full((2, 2, 3), 255, np.uint8)
LABELS, TEST_LABELS = [7, 0, 7, 3, 0], [3, 7]
WRITER_IDS = [2100, 8, 8, 30, 2100]
# Class, series, writer, digit index, class code, global index, duplicate, reserved.
EXTENDED = [[label, 0, writer, 5, 30 + label, 9, 0, 0] for label, writer in zip(LABELS, WRITER_IDS, strict=True)]
SETTINGS = {
    "source": "idx",
    "images": "train-images-idx3-ubyte",
    "labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte",
}
WRITERS = {"writers": "qmnist-train-labels-idx2-int.gz"}


def idx(array, kind=0x08):
    """The bytes of an IDX file: numbers of one byte (0x08) or four (0x0C)."""
    array = np.asarray(array)
    head = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8 if kind == 0x08 else ">i4").tobytes()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / SETTINGS["images"]).write_bytes(idx(PIXELS))
    (tmp_path / SETTINGS["labels"]).write_bytes(idx(LABELS))
    (tmp_path / SETTINGS["test_images"]).write_bytes(gzip.compress(idx(TEST_PIXELS)))
    (tmp_path / SETTINGS["test_labels"]).write_bytes(idx(TEST_LABELS))
    (tmp_path / WRITERS["writers"]).write_bytes(gzip.compress(idx(EXTENDED, 0x0C)))
    return tmp_path


def _load(folder, **settings):
    source = IDX(**SETTINGS | settings)
    places = {name: folder / value for name, value in source if name not in ("source", "transposed") and value}
    return load(source.model_copy(update=places), True, (), np.random.default_rng(0), folder)


def _refused(folder, **settings):
    with pytest.raises(ExperimentError) as error:
        _load(folder, **settings)
    (sentence,) = error.value.mistakes
    return sentence


def test_pictures_labels_and_writers(folder):
    data = _load(folder, **WRITERS)
    np.testing.assert_array_equal(data.features[:5], (PIXELS / 255).astype(np.float32))
    assert data.features[5:].tolist() == np.ones((2, 2, 3)).tolist()
    assert (data.features.dtype, data.features.flags.c_contiguous) == (np.float32, True)
    assert [data.class_names[label] for label in data.labels] == ["7", "0", "7", "3", "0", "3", "7"]
    assert data.class_names == ("0", "3", "7")
    assert data.held_out.tolist() == [False] * 5 + [True] * 2
    # The writers as numbers, in order, and nobody of the held-out digits.
    assert data.client_names == ("8", "30", "2100")
    assert data.clients.tolist() == [2, 0, 0, 1, 2, -1, -1]


def test_gzip_is_told_by_content_not_by_name(folder):
    plain = _load(folder)
    (folder / SETTINGS["images"]).write_bytes(gzip.compress(idx(PIXELS)))
    (folder / SETTINGS["test_images"]).write_bytes(idx(TEST_PIXELS))
    again = _load(folder)
    assert again.features.tobytes() == plain.features.tobytes()
    assert again.clients is None


def test_emnists_pictures_are_turned(folder):
    data = _load(folder, transposed=True)
    np.testing.assert_array_equal(data.features[:5], (PIXELS.transpose(0, 2, 1) / 255).astype(np.float32))


def test_qmnists_labels_as_labels(folder):
    assert _load(folder, labels=WRITERS["writers"]).labels.tolist() == _load(folder).labels.tolist()


DAMAGED = [
    (
        b"",
        "labels",
        "the file is no IDX file, which begins with two bytes of 0; it takes labels (idx1-ubyte) or QMNIST's",
    ),
    (b"\x80\x04x" * 9, "labels", "the file is no IDX file, which begins with two bytes of 0; it takes labels"),
    (idx(PIXELS), "labels", "the file holds pictures (idx3-ubyte); it takes labels (idx1-ubyte) or QMNIST's labels"),
    (idx(LABELS), "images", "the file holds labels (idx1-ubyte); it takes pictures (idx3-ubyte)"),
    (b"\0\0\x0d\x02" + bytes(8), "images", "the file holds numbers of type 0x0d in 2 dimensions; it takes pictures"),
    (idx(PIXELS)[:-1], "images", "the file ends early: its head tells of 5x2x3 bytes; fetch it anew"),
    (idx(PIXELS)[:10], "images", "the file ends early, within its head; fetch it anew"),
    (b"\0\0\x08\x03" + b"\xff" * 12, "images", "the file ends early: its head tells of 4294967295x4294967295x429"),
    (gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12), "images", "the file ends early: its head tells of 4294967295x42"),
    (idx(PIXELS) + b"\0", "images", "the file goes on after the 5x2x3 bytes that its head tells of"),
    (gzip.compress(idx(PIXELS))[:-9], "images", "the file cannot be read: Compressed file ended before the end-of-"),
    (gzip.compress(idx(PIXELS))[:-5] + b"\1" * 5, "images", "the file cannot be read: CRC check failed"),
    (gzip.compress(idx(PIXELS))[:10] + b"\xff" * 40, "images", "the file cannot be read: Error -3 while decompressing"),
    (idx(PIXELS[:0]), "images", "the file holds no pictures"),
    (idx(LABELS[:4]), "labels", "the file has 4 labels for 5 pictures"),
    (idx([3, 9]), "test_labels", "no training example has the label 9; the files are of two"),
    (idx(np.zeros((2, 3, 2))), "test_images", "held-out pictures are 3 by 2, training pictures 2 by 3"),
    (idx(LABELS), "writers", "the file holds labels (idx1-ubyte); it takes QMNIST's labels (idx2-int)"),
    (idx(EXTENDED[:4], 0x0C), "writers", "the file tells of 4 digits, but there are 5 labels"),
    (idx([row[:7] for row in EXTENDED], 0x0C), "writers", "the file has 7 columns; QMNIST's labels have 8"),
    (
        idx([*EXTENDED[:3], [9, *EXTENDED[3][1:]], EXTENDED[4]], 0x0C),
        "writers",
        "digit 3 is a 9 here and a 3 in the labels; the files do not belong together",
    ),
]


@pytest.mark.parametrize(("content", "key", "sentence"), DAMAGED, ids=[one[2] for one in DAMAGED])
def test_a_bad_file_is_told_in_a_sentence(folder, content, key, sentence):
    settings = SETTINGS | WRITERS
    (folder / settings[key]).write_bytes(content)
    if key == "images" and content == idx(PIXELS[:0]):
        (folder / settings["labels"]).write_bytes(idx([]))
    assert _refused(folder, **WRITERS).startswith(f"task.data.{key}: {sentence}")


@given(st.binary(max_size=60), st.integers(0, 50), st.booleans())
def test_random_bytes_are_refused_in_a_sentence_or_read(tmp_path_factory, noise, kept, packed):
    file = tmp_path_factory.getbasetemp() / "noise"
    content = gzip.compress(idx(PIXELS)) if packed else idx(PIXELS)
    file.write_bytes(content[:kept] + noise)
    with suppress(ExperimentError):
        assert read_idx(file, "images", PICTURES, LABELS_OF_MNIST).ndim in (1, 3)


def test_a_federation_of_writers(folder):
    lives_two_rounds(folder, SETTINGS | WRITERS)


def test_mnist_and_its_writers(shared_data, tmp_path):
    with h5py.File(shared_data / "mnist_by_writer.h5") as file:
        parts = {name: file[name][()] for name in ("x_train", "y_train", "x_test", "y_test", "writer_train")}
    extended = np.zeros((60_000, 8), np.int32)
    extended[:, 0], extended[:, 2] = parts["y_train"], parts["writer_train"]
    for key, array, kind in (
        ("images", parts["x_train"], 0x08),
        ("labels", parts["y_train"], 0x08),
        ("test_images", parts["x_test"], 0x08),
        ("test_labels", parts["y_test"], 0x08),
        ("writers", extended, 0x0C),
    ):
        (tmp_path / (SETTINGS | WRITERS)[key]).write_bytes(idx(array, kind))
    data = _load(tmp_path, **WRITERS)
    assert data.features.shape == (70_000, 28, 28)
    assert len(data.client_names) == 539
    for row in (0, 59_999):
        np.testing.assert_array_equal(data.features[row], (parts["x_train"][row] / 255).astype(np.float32))
        assert data.client_names[data.clients[row]] == str(parts["writer_train"][row])
    assert (data.labels[60_000:] == parts["y_test"]).all()
