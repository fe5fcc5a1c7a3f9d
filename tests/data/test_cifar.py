"""CIFAR's binary files, written here byte by byte."""

import numpy as np
import pytest

from fedhpc.data.public_settings import CIFARBinary
from fedhpc.data.sources import load
from fedhpc.mistakes import ExperimentError
from tests.rounds import lives_two_rounds

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
# Pixel (row, column) of channel c is row + column + 64 c: red first, row by row.
CHANNEL = np.add.outer(np.arange(32), np.arange(32))
PIXELS = np.concatenate([(CHANNEL + 64 * channel).ravel() for channel in range(3)]).astype(np.uint8).tobytes()


@pytest.fixture
def ten(tmp_path):
    """Batch b of five holds b pictures of class b; the held-out one is a truck."""
    for batch in range(1, 6):
        (tmp_path / f"data_batch_{batch}.bin").write_bytes((bytes([batch]) + PIXELS) * batch)
    (tmp_path / "test_batch.bin").write_bytes(bytes([9]) + PIXELS)
    (tmp_path / "batches.meta.txt").write_text("\n".join(NAMES) + "\n\n")
    return tmp_path


def _load(folder, dataset):
    source = CIFARBinary(source="cifar", dataset=dataset, folder=folder)
    return load(source, False, (), np.random.default_rng(0), folder)


def _refused(folder, dataset="cifar10"):
    with pytest.raises(ExperimentError) as error:
        _load(folder, dataset)
    (sentence,) = error.value.mistakes
    return error.value.path, sentence


def test_cifar_10(ten):
    data = _load(ten, "cifar10")
    assert data.labels.tolist() == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 9]
    assert data.held_out.tolist() == [False] * 15 + [True]
    assert data.class_names == tuple(NAMES)
    assert (data.features.shape, data.features.dtype) == ((16, 32, 32, 3), np.float32)
    assert data.features.flags.c_contiguous
    expected = np.stack([CHANNEL, CHANNEL + 64, CHANNEL + 128], axis=-1) / 255
    for picture in data.features:
        np.testing.assert_array_equal(picture, expected.astype(np.float32))


def test_cifar_100_has_the_fine_labels(tmp_path):
    (tmp_path / "train.bin").write_bytes(bytes([11, 98]) + PIXELS + bytes([0, 4]) + PIXELS)
    (tmp_path / "test.bin").write_bytes(bytes([19, 99]) + PIXELS)
    data = _load(tmp_path, "cifar100")
    assert data.labels.tolist() == [98, 4, 99]
    assert data.class_names == tuple(map(str, range(100)))
    (tmp_path / "fine_label_names.txt").write_text("".join(f"thing_{number}\n" for number in range(100)))
    assert _load(tmp_path, "cifar100").class_names[98] == "thing_98"
    (tmp_path / "train.bin").write_bytes(bytes([11, 100]) + PIXELS)
    told = "task.data.folder: record 0 has the label 100; cifar100 has the classes 0 to 99"
    assert _refused(tmp_path, "cifar100") == (tmp_path / "train.bin", told)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("data_batch_3.bin", b"", "the file has 0 bytes, which are no records of 3,073; fetch it anew"),
        ("data_batch_3.bin", (b"\1" + PIXELS)[:-1], "the file has 3,072 bytes, which are no records of 3,073; fetch"),
        ("test_batch.bin", b"\1" + PIXELS + b"\x0a" + PIXELS, "record 1 has the label 10; cifar10 has the classes 0"),
        ("batches.meta.txt", b"cat\ndog\n", "the file names 2 classes, of which there are 10"),
        ("batches.meta.txt", b"\xff\xfe", "the file is no text; fetch it anew"),
    ],
    ids=["empty", "cut", "label", "names", "no text"],
)
def test_a_bad_file_is_told_in_a_sentence(ten, name, content, sentence):
    (ten / name).write_bytes(content)
    path, told = _refused(ten)
    assert path == ten / name
    assert told.startswith(f"task.data.folder: {sentence}")


def test_a_batch_is_missing(ten):
    (ten / "data_batch_2.bin").unlink()
    (ten / "test_batch.bin").unlink()
    told = "task.data.folder: there is no data_batch_2.bin, test_batch.bin, which cifar10 has; fetch the data anew"
    assert _refused(ten) == (ten, told)


def test_a_federation(ten):
    lives_two_rounds(ten, {"source": "cifar", "dataset": "cifar10", "folder": "."}, {"kind": "iid", "clients": 5})
