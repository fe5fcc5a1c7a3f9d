"""FedScale's mapping files with the pictures or recordings that they name."""

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from fedhpc.data.public_settings import FedScaleFolder
from fedhpc.data.sources import load
from fedhpc.data.sources.recordings import spectrogram
from fedhpc.mistakes import ExperimentError
from tests.rounds import lives_two_rounds
from tests.waves import tone, write_wav

HEADING = "client_id,sample_path,label_name,label_id\n"
# As in the folder client_data_mapping of FedScale's OpenImage: an author's pictures, and each one's class.
TRAIN = HEADING + "12,a.png,Car,1\n7,sub/b.jpg,Tree,0\n12,c.png,Tree,0\n12,d.png,Car,1\n"
TEST = HEADING + "900,e.png,Person,2\n"
SETTINGS = {
    "source": "fedscale",
    "content": "pictures",
    "mapping": "train.csv",
    "folder": "train",
    "test_mapping": "test.csv",
    "test_folder": "test",
    "side": 8,
}
COLOURS = {"a.png": (255, 0, 51), "sub/b.jpg": (0, 0, 0), "c.png": (0, 102, 0), "d.png": (255, 255, 255)}


def _plain(file, colour, size=(20, 12), mode="RGB"):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(file)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.csv").write_text(TRAIN)
    (tmp_path / "test.csv").write_text(TEST)
    for name, colour in COLOURS.items():
        _plain(tmp_path / "train" / name, colour)
    _plain(tmp_path / "test" / "e.png", 51, mode="L")
    return tmp_path


def _load(folder, **settings):
    source = FedScaleFolder(**SETTINGS | settings)
    places = {name: folder / getattr(source, name) for name in ("mapping", "folder", "test_mapping", "test_folder")}
    return load(source.model_copy(update=places), True, (), np.random.default_rng(0), folder)


def _refused(folder, **settings):
    with pytest.raises(ExperimentError) as error:
        _load(folder, **settings)
    (sentence,) = error.value.mistakes
    return error.value.path, sentence


def test_pictures_clients_and_classes(folder):
    data = _load(folder)
    assert data.features.shape == (5, 8, 8, 3)
    found = data.features[np.array([3, 0, 1, 2, 4])]
    assert found.dtype == np.float32
    # Plain pictures stay plain however they are resized.
    colours = [(1, 1, 1), (1, 0, 0.2), (0, 0, 0), (0, 0.4, 0), (0.2, 0.2, 0.2)]
    expected = np.broadcast_to(np.array(colours, np.float32)[:, None, None], found.shape)
    np.testing.assert_array_equal(found, expected)
    assert data.class_names == ("Tree", "Car", "Person")
    assert data.labels.tolist() == [1, 0, 0, 1, 2]
    assert data.held_out.tolist() == [False] * 4 + [True]
    assert data.client_names == ("7", "12")
    assert data.clients.tolist() == [1, 0, 1, 1, -1]


def test_a_picture_of_the_side_stays_as_it_is(folder):
    pixels = np.random.default_rng(1).integers(256, size=(8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "train" / "a.png")
    np.testing.assert_array_equal(_load(folder).features[np.array([0])][0], (pixels / 255).astype(np.float32))


def test_the_first_examples_of_each_client(folder):
    data = _load(folder, most_examples=2)
    assert data.clients.tolist() == [1, 0, 1, -1]
    assert data.labels.tolist() == [1, 0, 0, 2]
    # Classes are those of the whole files.
    assert _load(folder, most_examples=1).class_names == ("Tree", "Car", "Person")


def test_recordings(tmp_path):
    # FedScale's Google Speech names the word, the speaker and the number in one flat folder.
    (tmp_path / "train.csv").write_text(HEADING + "012c8314,up_012c8314_nohash_0.wav,up,0\n")
    (tmp_path / "test.csv").write_text(HEADING + "aa,two_004ae714_nohash_0.wav,two,1\n")
    write_wav(tmp_path / "train" / "up_012c8314_nohash_0.wav", tone(300))
    write_wav(tmp_path / "test" / "two_004ae714_nohash_0.wav", tone(2000))
    data = _load(tmp_path, content="recordings")
    assert data.features.shape == (2, 8, 8)
    expected = spectrogram(str(tmp_path / "test" / "two_004ae714_nohash_0.wav"), 8, "folder")
    np.testing.assert_array_equal(data.features[np.array([1])][0], expected)
    with pytest.raises(ValidationError, match="300 is too many mel bands of a recording; lower it to at most 256"):
        FedScaleFolder(**SETTINGS | {"content": "recordings", "side": 300})


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("", "the file names no sample under its heading"),
        ("1,a.png,Car\n", "line 2 has 3 cells, but line 1 names 4 columns"),
        ("1,a.png,Car,\n", "line 2: label_id '' is no whole number from 0"),
        ("1,a.png,Car,0\n1\0,c.png,Car,0\n", "line 3 holds a character NUL; write the file anew"),
        ("1,a.png,Car\0,0\n", "line 2 holds a character NUL; write the file anew"),
        ("1,a.png,Car,-1\n", "line 2: label_id '-1' is no whole number from 0"),
        ("1,a.png,Car,1.5\n", "line 2: label_id '1.5' is no whole number from 0"),
        (f"1,a.png,Car,{'9' * 5000}\n", "line 2: label_id '9999"),
        ("1,a.png,,1\n", "line 2 has no label_name"),
        ("1,a.png,Car,1\n2,c.png,Tree,1\n", "line 3: 'Tree' has the label_id 1, which is 'Car' in line 2 of "),
        ("1,a.png,Car,1\n2,c.png,Car,0\n", "line 3: 'Car' has the label_id 0, but 1 in line 2 of "),
        ("1,a.png,Car,0\n", "no sample has the label_id 1, but one has 2; the numbers are 0 to k - 1 of k labels"),
        ("1,a.png,Car,0\n2,a.png,Car,0\n1,a.png,Car,0\n", "line 4: client '1' has the sample 'a.png' twice"),
        ("1,z.png,Car,0\n", "line 2: there is no file 'z.png' in "),
        ("1,sub,Car,0\n", "line 2: there is no file 'sub' in "),
        ("1,../test/e.png,Car,0\n", "line 2: '../test/e.png' leaves the folder; it takes a path within "),
        ("1,/etc/passwd,Car,0\n", "line 2: '/etc/passwd' leaves the folder; it takes a path within "),
    ],
)
def test_a_bad_mapping_is_told_in_a_sentence(folder, lines, sentence):
    (folder / "train.csv").write_text(HEADING + lines)
    path, told = _refused(folder)
    assert path == folder / "train.csv"
    assert told.startswith(f"task.data.mapping: {sentence}")


def test_a_mapping_without_its_columns(folder):
    (folder / "test.csv").write_text("client_id,sample_path\n900,e.png\n")
    assert _refused(folder)[1] == "task.data.test_mapping: line 2: label_id '' is no whole number from 0"
    (folder / "test.csv").write_bytes(b"\x80\x04\x95pickle")
    assert _refused(folder)[1].startswith("task.data.test_mapping: the file cannot be read as CSV in UTF-8: ")


@pytest.mark.parametrize(
    "damage", [lambda content: content[: len(content) // 2], lambda content: b"", lambda content: b"\x80\x04" + content]
)
def test_a_damaged_picture_leaves_nothing_half_made(folder, opened, damage):
    pixels = np.random.default_rng(1).integers(256, size=(30, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "train" / "sub" / "b.jpg")
    file = folder / "train" / "sub" / "b.jpg"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ExperimentError) as error:
        opened(SETTINGS)
    assert error.value.path == file
    (told,) = error.value.mistakes
    assert told.startswith("task.data.folder: the picture cannot be read: ")
    assert "\n" not in told
    assert not list((folder / "prepared").iterdir())


def test_pictures_that_are_programs_are_not_run(folder):
    (folder / "train" / "a.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n0 quit\n"
    )
    with pytest.raises(ExperimentError, match="the picture cannot be read: cannot identify image file"):
        _load(folder).features[np.array([0])]


def test_examples_are_prepared_as_they_are_read(folder, opened):
    data = opened(SETTINGS)
    assert [data.class_names[label] for label in data.labels] == ["Tree", "Car", "Tree", "Car"]
    assert data.offsets.tolist() == [0, 1, 4]
    assert data.features[:, 0, 0].tolist() == [[0, 0, 0], [1, 0, np.float32(0.2)], [0, np.float32(0.4), 0], [1, 1, 1]]
    assert (data.test_features == np.float32(0.2)).all()


def test_a_federation_of_authors(folder):
    lives_two_rounds(folder, SETTINGS)
