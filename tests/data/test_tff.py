"""TFF's data sets from small files in both of their formats."""

import sqlite3

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.data.public_settings import TFF
from fedhpc.data.sources import load
from fedhpc.data.sources.tff_pictures import COARSE, FINE
from fedhpc.data.sources.tff_split import evenly_spread, first_of_each
from fedhpc.mistakes import ExperimentError
from tests.rounds import lives_two_rounds
from tests.tff_files import write_hdf5, write_sqlite

NUMBERS = np.random.default_rng(0)


def _pictures(examples):
    return NUMBERS.random((examples, 28, 28), np.float32)


EMNIST_TRAIN = {
    "f0001_41": {"pixels": _pictures(3), "label": np.array([3, 61, 10], np.int32)},
    "f0000_14": {"pixels": _pictures(2), "label": np.array([0, 36], np.int32)},
}
EMNIST_TEST = {"f0001_41": {"pixels": _pictures(1), "label": np.array([9], np.int32)}}


def _image(examples):
    return NUMBERS.integers(0, 256, (examples, 32, 32, 3), np.uint8)


CIFAR_TRAIN = {
    str(client): {"image": _image(2), "label": np.array(labels), "coarse_label": np.array(coarse)}
    for client, labels, coarse in ((10, [8, 0], [18, 4]), (9, [99, 41], [13, 19]), (2, [1, 2], [1, 14]))
}
CIFAR_TEST = {"0": {"image": _image(1), "label": np.array([81]), "coarse_label": np.array([19])}}

SENTENCES = {
    "2": {
        "tokens": ["how to sort", "the the list is long to sort , yes", ""],
        "tags": ["c + +|arrays", "c # ", "math"],
    },
    "1": {"tokens": ["to be"], "tags": ["java|aftermath"]},
    "3": {"tokens": [], "tags": []},
}
HELD_OUT = {"9": {"tokens": ["sort the  list", "to"], "tags": ["c++", "git"]}}
WORD_COUNT = "the\t90\nto\t40\nsort\t40\nlist 7\n, 90\nrare 1\n"
# Words by number: the 1, "," 2 (as frequent, but later), to 3, sort 4; unknown 5, beginning 6, end 7.
STACKOVERFLOW = {"words": 4, "sentence": 5}


def _settings(folder, dataset, train, test, sqlite, **settings):
    if sqlite:
        write_sqlite(folder / "d.sqlite", {"train": train, "test": test, "heldout": test | train})
        files = {"train": folder / "d.sqlite"}
    else:
        write_hdf5(folder / "train.h5", train)
        write_hdf5(folder / "test.h5", test)
        files = {"train": folder / "train.h5", "test": folder / "test.h5"}
    if dataset == "stackoverflow":
        (folder / "words").write_text(WORD_COUNT)
        settings = STACKOVERFLOW | {"vocabulary": folder / "words"} | settings
    return TFF(source="tff", dataset=dataset, **files, **settings)


def _load(settings, tags=()):
    return load(settings, True, tags, np.random.default_rng(0), settings.train.parent)


def _mistake(settings, tags=()):
    (sentence,) = _mistakes_of(lambda: _load(settings, tags))
    return sentence


both = pytest.mark.parametrize("sqlite", [False, True], ids=["hdf5", "sqlite"])


@both
def test_emnist_by_client_in_the_file_s_order(tmp_path, sqlite):
    data = _load(_settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, sqlite))
    parts = [EMNIST_TRAIN["f0000_14"], EMNIST_TRAIN["f0001_41"], EMNIST_TEST["f0001_41"]]
    # In the files the paper is 1; FedJAX, by which Hard et al. trained, takes 1 less that.
    np.testing.assert_array_equal(data.features, np.concatenate([np.float32(1) - part["pixels"] for part in parts]))
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous
    assert (data.labels.tolist(), data.labels.dtype) == ([0, 36, 3, 61, 10, 9], np.int64)
    assert data.held_out.tolist() == [False] * 5 + [True]
    assert data.clients.tolist() == [0, 0, 1, 1, 1, -1]
    assert data.client_names == ("f0000_14", "f0001_41")
    assert len(data.class_names) == 62
    assert [data.class_names[label] for label in data.labels] == ["0", "a", "3", "z", "A", "9"]
    assert data.tagged is None
    assert data.unscored == ()
    assert data.words == ()


def test_emnist_of_digits_alone_has_ten_classes(tmp_path):
    train = {"a": {"pixels": _pictures(1), "label": np.array([4])}}
    data = _load(_settings(tmp_path, "emnist", train, EMNIST_TEST, False))
    assert data.class_names == tuple("0123456789")


@both
def test_cifar100_and_its_coarse_classes_as_tags(tmp_path, sqlite):
    settings = _settings(tmp_path, "cifar100", CIFAR_TRAIN, CIFAR_TEST, sqlite)
    data = _load(settings, ["vehicles_1", "vehicles_2"])
    parts = [CIFAR_TRAIN["10"], CIFAR_TRAIN["2"], CIFAR_TRAIN["9"], CIFAR_TEST["0"]]
    images = np.concatenate([part["image"] for part in parts])
    np.testing.assert_array_equal(data.features, images.astype(np.float32) / np.float32(255))
    assert data.labels.tolist() == [8, 0, 1, 2, 99, 41, 81]
    assert data.tagged.tolist() == [True, False, False, False, False, True, True]
    assert data.client_names == ("10", "2", "9")
    names = [data.class_names[label] for label in data.labels]
    assert names == ["bicycle", "apple", "aquarium_fish", "baby", "worm", "lawn_mower", "streetcar"]
    assert _load(settings).tagged is None


def test_cifar100_s_classes():
    assert (len(FINE), len(set(FINE)), list(FINE)) == (100, 100, sorted(FINE))
    assert (len(COARSE), list(COARSE)) == (20, sorted(COARSE))
    vehicles = ["bicycle", "bus", "motorcycle", "pickup_truck", "train"]
    vehicles += ["lawn_mower", "rocket", "streetcar", "tank", "tractor"]
    # Their numbers in Krizhevsky's files.
    assert [FINE.index(name) for name in vehicles] == [8, 13, 48, 58, 90, 41, 69, 81, 85, 89]


@both
def test_sentences_are_numbered_as_tff_numbers_them(tmp_path, sqlite):
    data = _load(_settings(tmp_path, "stackoverflow", SENTENCES, HELD_OUT, sqlite), ["c++", "math"])
    assert data.class_names == ("<padding>", "the", ",", "to", "sort", "<unknown>", "<beginning>", "<end>")
    assert data.words == data.class_names
    assert data.unscored == (0, 5, 6, 7)
    assert data.features.tolist() == [
        [6, 3, 5, 7, 0],  # to be
        [6, 5, 3, 4, 7],  # how to sort
        [6, 1, 1, 5, 5],  # the the list is | long to sort , yes: cut after five words, so without an end
        [6, 5, 7, 0, 0],  # nothing is one word, the empty one
        [6, 4, 1, 5, 5],  # sort the _ list: between two spaces is the empty word
        [6, 3, 7, 0, 0],
    ]
    assert data.labels.tolist() == [
        [3, 5, 7, -1, -1],
        [5, 3, 4, 7, -1],
        [1, 1, 5, 5, 5],
        [5, 7, -1, -1, -1],
        [4, 1, 5, 5, 7],
        [3, 7, -1, -1, -1],
    ]
    assert (data.client_names, data.clients.tolist()) == (("1", "2"), [0, 1, 1, 1, -1, -1])
    assert data.tagged.tolist() == [False, True, False, True, True, False]


@both
def test_most_examples_and_held_out_examples(tmp_path, sqlite):
    settings = _settings(tmp_path, "stackoverflow", SENTENCES, SENTENCES, sqlite, most_examples=2, held_out_examples=2)
    data = _load(settings)
    # The first two of client 2, and of the four held-out ones (that of client 1 first) the first and the last.
    assert data.features[:, 1:4].tolist() == [[3, 5, 7], [5, 3, 4], [1, 1, 5], [3, 5, 7], [5, 7, 0]]
    assert data.held_out.tolist() == [False] * 3 + [True] * 2
    assert data.clients.tolist() == [0, 1, 1, -1, -1]


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 9), st.integers(1, 30))
def test_rows_that_are_kept(counts, most, wanted):
    counts = np.array(counts, np.int64)
    starts = np.cumsum(counts) - counts
    kept = [start + row for start, count in zip(starts, counts, strict=True) for row in range(min(count, most))]
    assert first_of_each(counts, np.minimum(counts, most)).tolist() == kept
    assert first_of_each(counts, counts).tolist() == list(range(counts.sum()))
    spread = evenly_spread(int(counts.sum()), wanted)
    assert len(set(spread.tolist())) == len(spread) == min(wanted, counts.sum())
    if 1 < len(spread) < counts.sum():
        assert (spread[0], spread[-1]) == (0, counts.sum() - 1)
        assert np.diff(spread).max() - np.diff(spread).min() <= 1


@pytest.mark.parametrize("dataset", ["emnist", "cifar100"])
def test_two_rounds_on_pictures(tmp_path, dataset):
    parts = {"emnist": (EMNIST_TRAIN, EMNIST_TEST), "cifar100": (CIFAR_TRAIN, CIFAR_TEST)}[dataset]
    settings = _settings(tmp_path, dataset, *parts, dataset == "emnist")
    lives_two_rounds(tmp_path, _data(settings))


def test_hard_et_al_s_stragglers_by_the_classes_names(tmp_path, opened):
    settings = _settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, False)
    digits = {"classes": ["0", "1", "3"], "clients": 1}
    (sentence,) = _mistakes_of(lambda: opened(_data(settings), None, digits))
    assert sentence == "task.stragglers.classes: no client has a training example of 1; leave it out or name another"
    data = opened(_data(settings), None, {"classes": ["0", "3"], "clients": 1})
    # Each client has one of them; the first is the straggler, and the other loses its 3.
    assert data.stragglers.tolist() == [True, False]
    assert data.labels.tolist() == [0, 36, 61, 10]
    settings = _settings(tmp_path, "cifar100", CIFAR_TRAIN, CIFAR_TEST, False)
    data = opened(_data(settings), None, {"classes": ["bicycle", "lawn_mower"], "clients": 1})
    assert (data.client_names, data.stragglers.tolist()) == (("10", "2", "9"), [True, False, False])
    assert data.labels.tolist() == [8, 0, 1, 2, 99]
    data = opened(_data(settings), None, {"tags": ["vehicles_1", "vehicles_2"]})
    assert data.stragglers.tolist() == [True, False, True]
    assert data.labels.tolist() == [8, 0, 1, 2, 99, 41]


def _data(settings):
    return settings.model_dump(mode="json", exclude_none=True)


# Mistakes.


def _mistakes_of(load):
    with pytest.raises(ExperimentError) as error:
        load()
    return error.value.mistakes


def _changed(client, **fields):
    return EMNIST_TRAIN | {client: EMNIST_TRAIN[client] | fields}


@both
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"label": np.array([3, 62, 10])},
            "task.data.train: client 'f0001_41': 'label' has the value 62; it takes 0 to 61",
        ),
        (
            {"label": np.array([3, -1, 10])},
            "task.data.train: client 'f0001_41': 'label' has the value -1; it takes 0 to 61",
        ),
        (
            {"pixels": np.full((3, 28, 28), np.nan, np.float32)},
            "task.data.train: client 'f0001_41': 'pixels' has a value that is not finite",
        ),
    ],
)
def test_values_out_of_range(tmp_path, sqlite, changed, sentence):
    assert _mistake(_settings(tmp_path, "emnist", _changed("f0001_41", **changed), EMNIST_TEST, sqlite)) == sentence


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"pixels": np.zeros((3, 28, 27), np.float32)},
            "'pixels' is floats [3, 28, 27]; it takes floats [3, 28, 28]",
        ),
        ({"label": np.array([1, 2])}, "'label' is integers [2]; it takes integers [3]"),
        ({"label": np.array([1.0, 2, 3])}, "'label' is floats [3]; it takes integers [3]"),
        ({"label": ["1", "2", "3"]}, "'label' is text [3]; it takes integers [3]"),
    ],
)
def test_arrays_of_another_kind_in_hdf5(tmp_path, changed, sentence):
    settings = _settings(tmp_path, "emnist", _changed("f0001_41", **changed), EMNIST_TEST, False)
    assert _mistake(settings) == f"task.data.train: client 'f0001_41': {sentence}"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"pixels": np.zeros((3, 28, 27), np.float32)},
            "'pixels' of an example is 756 floats; it takes 784 floats",
        ),
        ({"label": ["1", "2", "3"]}, "'label' of an example is 1 text; it takes 1 integers"),
        ({"label": np.zeros((3, 0), np.int64)}, "'label' of an example is 0 text; it takes 1 integers"),
    ],
)
def test_features_of_another_kind_in_sqlite(tmp_path, changed, sentence):
    settings = _settings(tmp_path, "emnist", _changed("f0001_41", **changed), EMNIST_TEST, True)
    assert _mistake(settings) == f"task.data.train: client 'f0001_41': {sentence}"


@both
def test_pixels_of_cifar100_are_bytes(tmp_path, sqlite):
    train = CIFAR_TRAIN | {"9": CIFAR_TRAIN["9"] | {"image": np.full((2, 32, 32, 3), 256)}}
    sentence = "task.data.train: client '9': 'image' has a value outside 0 to 255"
    assert _mistake(_settings(tmp_path, "cifar100", train, CIFAR_TEST, sqlite)) == sentence


def test_an_absent_field(tmp_path):
    train = {"a": {"pixels": _pictures(1)}}
    sentence = "task.data.train: client 'a': it has no array 'label'"
    assert _mistake(_settings(tmp_path, "emnist", train, EMNIST_TEST, False)) == sentence
    sentence = "task.data.train: client 'a': an example has no 'label'"
    assert _mistake(_settings(tmp_path, "emnist", train, EMNIST_TEST, True)) == sentence


@pytest.mark.parametrize(
    ("dataset", "tags", "sentence"),
    [
        ("cifar100", ["vehicle_1"], "no training example bears 'vehicle_1'; did you mean 'vehicles_1'?"),
        ("cifar100", ["vehicles_1", "trees"], "no training example bears 'trees'"),
        ("stackoverflow", ["math", "maths"], "no training example bears 'maths'; did you mean 'math'?"),
    ],
)
def test_tags_that_nothing_bears(tmp_path, dataset, tags, sentence):
    of = {
        "cifar100": (CIFAR_TRAIN, CIFAR_TEST),
        "stackoverflow": (SENTENCES, HELD_OUT),
    }
    assert _mistake(_settings(tmp_path, dataset, *of[dataset], False), tags) == f"task.stragglers.tags: {sentence}"


def _damaged(tmp_path, content):
    settings = _settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, content[0])
    whole = settings.train.read_bytes()
    settings.train.write_bytes(content[1](whole))
    return _mistake(settings)


@pytest.mark.parametrize(
    "cut", [lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: b"no data, " * 99]
)
def test_a_truncated_or_foreign_hdf5_file(tmp_path, cut):
    assert _damaged(tmp_path, (False, cut)).startswith("task.data.train: the file cannot be read as HDF5: ")


@pytest.mark.parametrize(
    ("cut", "sentence"),
    [
        (lambda whole: whole[:9000], "the file cannot be read as SQLite: database disk image is malformed"),
        (lambda whole: b"no data, " * 999, "the file cannot be read as SQLite: file is not a database"),
        (
            lambda whole: b"",
            "the file has no table 'examples' with split_name, client_id, serialized_example_proto; it has none",
        ),
    ],
)
def test_a_truncated_or_foreign_sqlite_file(tmp_path, cut, sentence):
    assert _damaged(tmp_path, (True, cut)) == f"task.data.train: {sentence}"


def test_hdf5_without_examples(tmp_path):
    settings = _settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, False)
    sentence = "the file has no clients in a group 'examples'; it takes a file of TFF's"
    with h5py.File(settings.test, "w") as file:
        file["examples"] = 3
    assert _mistake(settings) == f"task.data.test: {sentence}"
    write_hdf5(settings.train, {"a": {"pixels": np.zeros((0, 28, 28), np.float32), "label": np.zeros(0, int)}})
    write_hdf5(settings.test, EMNIST_TEST)
    assert _mistake(settings) == "task.data.train: no client of the file has an example"


@pytest.mark.parametrize("examples", [10**12, 10**17])
def test_more_examples_than_memory_holds(tmp_path, examples):
    settings = _settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, False)
    with h5py.File(settings.train, "w") as file:  # nothing is written of it
        file.create_dataset("examples/a/pixels", (examples, 28, 28), np.float32, chunks=(1, 28, 28))
        file.create_dataset("examples/a/label", (examples,), np.int64, chunks=(9,))
    told = f"{examples + 1:,} examples do not fit into memory; keep fewer, by most_examples and held_out_examples"
    assert _mistake(settings) == f"task.data.train: {told}"


def test_a_client_s_name_that_is_no_text(tmp_path):
    settings = _settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, False)
    with h5py.File(settings.train, "a") as file:
        file["examples"].create_group(b"\xff")
    assert _mistake(settings) == "task.data.train: the client b'\\xff' has no name in UTF-8"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            "UPDATE examples SET serialized_example_proto = x'0a05' WHERE client_id = 'f0000_14'",
            "client 'f0000_14': an example is no tf.train.Example: it is cut short",
        ),
        (
            "UPDATE examples SET serialized_example_proto = 7 WHERE client_id = 'f0000_14'",
            "client 'f0000_14': an example is no bytes",
        ),
        ("UPDATE examples SET client_id = x'00'", "the client_id b'\\x00' is no text"),
        ("UPDATE examples SET client_id = NULL", "the client_id None is no text"),
        (
            "DELETE FROM examples WHERE split_name = 'test'",
            "the table 'examples' has no row whose split_name is 'test'",
        ),
        (
            "ALTER TABLE examples RENAME COLUMN client_id TO user",
            "the file has no table 'examples' with split_name, client_id, serialized_example_proto; the table "
            "'examples' has split_name, user, serialized_example_proto",
        ),
    ],
)
def test_mistakes_in_sqlite(tmp_path, change, sentence):
    settings = _settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, True)
    with sqlite3.connect(settings.train) as connection:
        connection.execute(change)
    connection.close()
    assert _mistake(settings) == f"task.data.train: {sentence}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a 3\nb 2\n", "task.data.words: 4 exceeds the file's 2 words; lower it"),
        ("", "task.data.words: 4 exceeds the file's 0 words; lower it"),
        ("a 3\nb\n", "task.data.vocabulary: line 2 is no word and its count, as 'the 341'"),
        ('{"a": 3, "b": 4}', "task.data.vocabulary: line 1 is no word and its count, as 'the 341'"),
        ("a 3\nb 3\na 2\nc 2\n", "task.data.vocabulary: the word 'a' stands there twice"),
    ],
)
def test_mistakes_in_a_vocabulary(tmp_path, content, sentence):
    settings = _settings(tmp_path, "stackoverflow", SENTENCES, HELD_OUT, False)
    settings.vocabulary.write_text(content)
    assert _mistake(settings) == sentence


def _external(file, folder):
    file["examples/f0000_14/pixels"] = h5py.ExternalLink("other.h5", "pixels")


def _virtual(file, folder):
    layout = h5py.VirtualLayout((2, 28, 28), np.float32)
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "pixels", (2, 28, 28))
    file.create_virtual_dataset("examples/f0000_14/pixels", layout, fillvalue=0)


def _stored_outside(file, folder):
    (folder / "raw").write_bytes(bytes(2 * 28 * 28 * 4))
    places = [(str(folder / "raw"), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("examples/f0000_14/pixels", (2, 28, 28), np.float32, external=places)


@pytest.mark.parametrize("put", [_external, _virtual, _stored_outside])
def test_arrays_that_lie_in_another_file(tmp_path, put):
    settings = _settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, False)
    with h5py.File(tmp_path / "other.h5", "w") as other, h5py.File(settings.train, "a") as file:
        other["pixels"] = _pictures(2)
        del file["examples/f0000_14/pixels"]
        put(file, tmp_path)
    told = "'pixels' lies in another file, whose changes would go unnoticed; copy its numbers into this one"
    assert _mistake(settings) == f"task.data.train: client 'f0000_14': {told}"


def test_a_link_that_leads_to_itself(tmp_path):
    settings = _settings(tmp_path, "emnist", EMNIST_TRAIN, EMNIST_TEST, False)
    with h5py.File(settings.train, "a") as file:
        del file["examples"]
        file["examples"] = h5py.SoftLink("/examples")
    assert _mistake(settings).startswith("task.data.train: the file cannot be read as HDF5: ")
