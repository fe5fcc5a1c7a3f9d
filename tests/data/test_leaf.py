"""LEAF's data sets from small JSON files as its scripts write them."""

import json

import numpy as np
import pytest
from PIL import Image

from fedhpc.data.public_settings import LEAF
from fedhpc.data.sources import load
from fedhpc.mistakes import ExperimentError
from tests.rounds import lives_two_rounds

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's, whose numbers are the places in it."""


def _leaf(users, **more):
    sizes = [len(own["y"]) for own in users.values()]
    return {"users": list(users), "num_samples": sizes, "user_data": users} | more


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def _load(folder, dataset, seed=0, keeps_clients=True, **settings):
    given = {"source": "leaf", "dataset": dataset, "train": folder / "train"}
    if "held_out" not in settings:
        given["test"] = folder / "test"
    return load(LEAF(**given | settings), keeps_clients, (), np.random.default_rng(seed), folder)


def _mistake(folder, dataset, **settings):
    with pytest.raises(ExperimentError) as error:
        _load(folder, dataset, **settings)
    (sentence,) = error.value.mistakes
    return sentence


def _pixels(value):
    return [value + number / 784 for number in range(784)]


FEMNIST = {"f2_a": {"x": [_pixels(0), _pixels(1)], "y": [61, 3]}, "f1_b": {"x": [_pixels(2)], "y": [10]}}
FEMNIST_MORE = {"f0": {"x": [_pixels(3)] * 3, "y": [0, 1, 2]}}
FEMNIST_TEST = {"f1_b": {"x": [_pixels(4)], "y": [36]}, "other": {"x": [_pixels(5)], "y": [9]}}


@pytest.fixture
def femnist(tmp_path):
    _write(tmp_path / "train/all_data_1.json", _leaf(FEMNIST, hierarchies=["a", "b"]))
    _write(tmp_path / "train/all_data_0.json", _leaf(FEMNIST_MORE))
    _write(tmp_path / "test/all_data_0.json", _leaf(FEMNIST_TEST))
    return tmp_path


def test_femnist_from_folders_of_files(femnist):
    (femnist / "train/README").write_text("no data")
    data = _load(femnist, "femnist")
    rows = [3, 3, 3, 2, 0, 1, 4, 5]
    wanted = np.array([_pixels(value) for value in rows], np.float32).reshape(-1, 28, 28)
    np.testing.assert_array_equal(data.features, wanted)
    assert data.features.dtype == np.float32
    assert data.labels.tolist() == [0, 1, 2, 10, 61, 3, 36, 9]
    assert data.held_out.tolist() == [False] * 6 + [True] * 2
    assert data.client_names == ("f0", "f1_b", "f2_a")
    assert data.clients.tolist() == [0, 0, 0, 1, 2, 2, -1, -1]
    assert [data.class_names[label] for label in data.labels] == ["0", "1", "2", "A", "z", "3", "a", "9"]


def test_smaller_users_are_left_out_with_their_held_out_examples(femnist):
    data = _load(femnist, "femnist", least_examples=2)
    assert data.client_names == ("f0", "f2_a")
    assert data.labels.tolist() == [0, 1, 2, 61, 3, 9]
    sentence = "task.data.least_examples: no user has 4 examples; lower it"
    assert _mistake(femnist, "femnist", least_examples=4) == sentence


def test_a_share_of_each_user_or_of_all(femnist):
    data = _load(femnist, "femnist", held_out=0.5)
    assert len(data.labels) == 6
    # round(1.5) = 2 of f0's three, none of f1_b's one, one of f2_a's two.
    assert [int(data.held_out[data.clients == client].sum()) for client in range(3)] == [2, 0, 1]
    assert _load(femnist, "femnist", held_out=0.5, keeps_clients=False).held_out.sum() == 3
    drawn = {tuple(_load(femnist, "femnist", seed, held_out=0.5).held_out) for seed in range(9)}
    assert len(drawn) > 1


def test_shakespeare_s_characters_are_leaf_s_eighty(tmp_path):
    window = ALPHABET[40:] + ALPHABET[:40]
    train = {"HAMLET": {"x": [window, "a" * 80], "y": ["}", "\n"]}}
    _write(tmp_path / "train/a.json", _leaf(train))
    _write(tmp_path / "test/a.json", _leaf({"HAMLET": {"x": [" " * 80], "y": ["Z"]}}))
    data = _load(tmp_path, "shakespeare")
    assert len(ALPHABET) == 80
    assert "".join(data.class_names) == ALPHABET
    assert data.features[0].tolist() == [*range(40, 80), *range(40)]
    assert data.features.shape == (3, 80)
    assert data.features[1:, 0].tolist() == [ALPHABET.index("a"), 1]
    assert data.labels.tolist() == [79, 0, ALPHABET.index("Z")]


def _tweet(text):
    return ["1467810369", "Mon Apr 06", "NO_QUERY", "someone", text, "training"]


def test_sent140_s_words_by_how_often_training_tweets_have_them(tmp_path):
    train = {
        "b": {"x": [_tweet("I can't, can't see it!"), _tweet("it is it @ home")], "y": [0, 1]},
        "a": {"x": [_tweet("is, it?")], "y": [1]},
    }
    _write(tmp_path / "train/a.json", _leaf(train))
    _write(tmp_path / "test/a.json", _leaf({"c": {"x": [_tweet("home; home; it"), _tweet("")], "y": [0, 1]}}))
    data = _load(tmp_path, "sent140", words=5, sentence=6)
    # it 4; then "," and can't and is, 2 each, by the alphabet; then "?" of those that occur once, as "!" is cut off.
    assert data.words == ("<padding>", "it", ",", "can't", "is", "?", "<unknown>")
    assert data.features.tolist() == [
        [4, 2, 1, 5, 0, 0],
        [6, 3, 2, 3, 6, 1],
        [1, 4, 1, 6, 0, 0],
        [6, 6, 6, 6, 1, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    assert data.labels.tolist() == [1, 0, 1, 0, 1]
    assert (data.class_names, data.client_names) == (("negative", "positive"), ("a", "b"))


def test_sent140_numbers_are_not_by_the_held_out_share(tmp_path):
    # Of nine tweets of one word each, three are held out; their words have no number.
    tweets = {"x": [_tweet(f"w{number}") for number in range(9)], "y": [0] * 9}
    _write(tmp_path / "train/a.json", _leaf({"a": tweets}))
    data = _load(tmp_path, "sent140", held_out=1 / 3, sentence=1)
    known = sorted(f"w{number}" for number in np.flatnonzero(~data.held_out))
    assert data.words == ("<padding>", *known, "<unknown>")
    assert data.features[data.held_out].ravel().tolist() == [7, 7, 7]
    assert sorted(data.features[~data.held_out].ravel().tolist()) == [1, 2, 3, 4, 5, 6]


@pytest.fixture
def celeba(tmp_path):
    (tmp_path / "img").mkdir()
    for name, colour in (("1.png", (255, 0, 51)), ("2.png", (0, 102, 204)), ("3.png", (1, 2, 3))):
        Image.new("RGB", (6, 9), colour).save(tmp_path / "img" / name)
    # As LEAF's script writes it: labels are floating-point numbers.
    _write(tmp_path / "train/a.json", _leaf({"7": {"x": ["1.png", "2.png"], "y": [1.0, 0.0]}}))
    _write(tmp_path / "test/a.json", _leaf({"7": {"x": ["3.png"], "y": [1.0]}}))
    return tmp_path


def test_celeba_s_pictures_brought_to_size(celeba):
    data = _load(celeba, "celeba", images=celeba / "img", side=4)
    features = data.features[np.arange(3)]
    wanted = np.array([[255, 0, 51], [0, 102, 204], [1, 2, 3]], np.float32) / np.float32(255)
    np.testing.assert_array_equal(features, np.broadcast_to(wanted[:, None, None], (3, 4, 4, 3)))
    assert data.labels.tolist() == [1, 0, 1]
    assert data.class_names == ("not smiling", "smiling")


def test_two_rounds_on_femnist(femnist):
    lives_two_rounds(femnist, {"source": "leaf", "dataset": "femnist", "train": "train", "test": "test"})


def test_two_rounds_on_shakespeare(tmp_path):
    users = {name: {"x": [name * 80, "b" * 80], "y": ["b", "a"]} for name in "xyz"}
    _write(tmp_path / "train.json", _leaf(users))
    data = {"source": "leaf", "dataset": "shakespeare", "train": "train.json", "held_out": 0.5}
    lives_two_rounds(tmp_path, data)


def test_two_rounds_on_sent140(tmp_path):
    users = {name: {"x": [_tweet("so good"), _tweet("so bad")], "y": [1, 0]} for name in "xyz"}
    _write(tmp_path / "train.json", _leaf(users))
    lives_two_rounds(tmp_path, {"source": "leaf", "dataset": "sent140", "train": "train.json", "held_out": 0.5})


def test_two_rounds_on_celeba(celeba):
    _write(celeba / "train/b.json", _leaf({"8": {"x": ["3.png"], "y": [0]}}))
    lives_two_rounds(
        celeba, {"source": "leaf", "dataset": "celeba", "train": "train", "test": "test", "images": "img", "side": 4}
    )


# Mistakes.


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            _leaf(FEMNIST) | {"num_samples": [2, 2]},
            "user 'f1_b': num_samples is 2, but there are 1 x and 1 y",
        ),
        (_leaf(FEMNIST) | {"num_samples": [2]}, "it has 2 users, but 1 num_samples"),
        (_leaf(FEMNIST) | {"users": ["f2_a", "f2_a"]}, "the user 'f2_a' stands twice"),
        (_leaf(FEMNIST) | {"users": ["f2_a", "f3"]}, "the user 'f3' has no user_data"),
        (_leaf(FEMNIST) | {"users": ["f2_a"], "num_samples": [2]}, "it has 1 users, but user_data of 2"),
        (_leaf(FEMNIST) | {"users": ["f2_a", 3]}, "a user is called 3; it takes a text"),
        (_leaf(FEMNIST_MORE), "the user 'f0' stands there and in all_data_0.json"),
        ({"users": [], "num_samples": []}, "the file has no 'user_data', an object; it takes a file that LEAF's"),
        ([1, 2], "the file has no 'users', a list; it takes a file that LEAF's"),
        ("{", "the file cannot be read as JSON: Expecting property name"),
        ("[" * 100_000, "the file cannot be read as JSON: "),
        ('{"users": ["a"], "users": []}', "the user or key 'users' stands twice"),
        ('{"user_data": {"a": {}, "a": {}}}', "the user or key 'a' stands twice"),
        (_leaf({"a": {"x": [[0.5] * 783], "y": [1]}}), "user 'a': an x is no list of 784 pixels"),
        (_leaf({"a": {"x": ["0.5"], "y": [1]}}), "user 'a': an x is no list of 784 pixels"),
        (_leaf({"a": {"x": [[0.5] * 783 + ["b"]], "y": [1]}}), "user 'a': an x holds something that is no number"),
        (_leaf({"a": {"x": [[0.5] * 783 + [[1]]], "y": [1]}}), "user 'a': an x holds something that is no number"),
        (
            _leaf({"a": {"x": [[0.5] * 783 + [float("nan")]], "y": [1]}}),
            "user 'a': an x holds a value that is not finite",
        ),
        (_leaf({"a": {"x": [[0] * 784], "y": [62]}}), "user 'a': y has 62; it takes the whole numbers 0 to 61"),
        (_leaf({"a": {"x": [[0] * 784], "y": [0.5]}}), "user 'a': y has 0.5; it takes the whole numbers 0 to 61"),
        (_leaf({"a": {"x": [[0] * 784], "y": ["3"]}}), "user 'a': y has '3'; it takes the whole numbers 0 to 61"),
        (
            _leaf({"a": {"x": [[0] * 784], "y": [float("inf")]}}),
            "user 'a': y has inf; it takes the whole numbers 0 to 61",
        ),
        (
            _leaf({"a": {"x": [["0.5"] * 784], "y": [1]}}),
            "user 'a': an x holds something that is no number",
        ),
        (
            _leaf({"a": {"x": [[[0.5, 0.5]] * 784], "y": [1]}}),
            "user 'a': an x holds something that is no number",
        ),
        (
            _leaf({"a": {"x": [[10**400] * 784], "y": [1]}}),
            "user 'a': an x holds something that is no number",
        ),
        (
            _leaf({"a": {"x": [[1e300] * 784], "y": [1]}}),
            "user 'a': an x holds a value that is not finite",
        ),
        (
            _leaf({"a": {"x": [], "y": []}}) | {"num_samples": [[1]]},
            "user 'a': num_samples is [1], but there are 0 x and 0 y",
        ),
        (_leaf({"\ud800": {"x": [], "y": []}}), "a user is called '\\ud800'; it takes a text"),
        (_leaf({"": {"x": [], "y": []}}), "a user is called ''; it takes a text"),
        (_leaf({"a": {"x": [], "y": []}}) | {"user_data": {"a": {"x": 3}}}, "user 'a': it takes lists x and y"),
    ],
)
def test_mistakes_in_a_file(femnist, content, sentence):
    _write(femnist / "train/all_data_1.json", content)
    assert _mistake(femnist, "femnist").startswith(f"task.data.train: {sentence}")


def test_a_folder_without_files(femnist):
    (femnist / "test/all_data_0.json").unlink()
    sentence = "task.data.test: the folder holds no .json file; it takes those that LEAF's scripts write"
    assert _mistake(femnist, "femnist") == sentence


@pytest.mark.parametrize(
    ("dataset", "x", "y", "sentence"),
    [
        ("shakespeare", "a" * 79, "b", f"x has '{'a' * 79}'; it takes texts of 80 characters"),
        ("shakespeare", "a" * 80, "", "y has ''; it takes texts of 1 character"),
        ("shakespeare", "a" * 80, 3, "y has 3; it takes texts of 1 character"),
        ("shakespeare", "a" * 79 + "é", "b", "the character 'é' is none of LEAF's 80"),
        ("shakespeare", "a" * 80, "😀", "the character '😀' is none of LEAF's 80"),
        ("shakespeare", "a" * 80, "$", "the character '$' is none of LEAF's 80"),
        ("sent140", "a tweet", 1, "an x is no list of id, date, query, user and text"),
        ("sent140", ["1", "2"], 1, "an x is no list of id, date, query, user and text"),
        ("sent140", _tweet("hi"), 4, "y has 4; it takes the whole numbers 0 to 1"),
    ],
)
def test_mistakes_in_texts(tmp_path, dataset, x, y, sentence):
    for split in ("train", "test"):
        _write(tmp_path / split / "a.json", _leaf({"a": {"x": [x], "y": [y]}}))
    assert _mistake(tmp_path, dataset) == f"task.data.train: user 'a': {sentence}"


@pytest.mark.parametrize("name", ["../1.png", "/etc/passwd", "a/../../1.png"])
def test_a_picture_outside_its_folder(celeba, name):
    _write(celeba / "train/a.json", _leaf({"7": {"x": [name], "y": [1]}}))
    images = celeba / "img"
    sentence = f"task.data.train: user '7': '{name}' leaves the folder; it takes a path within {images}"
    assert _mistake(celeba, "celeba", images=images) == sentence


def test_a_picture_that_is_missing_or_damaged(celeba):
    images = celeba / "img"
    picture = images / "2.png"
    picture.write_bytes(picture.read_bytes()[:40])
    data = _load(celeba, "celeba", images=images)
    with pytest.raises(ExperimentError) as error:
        data.features[np.array([1])]
    assert error.value.path == picture
    assert error.value.mistakes[0].startswith("task.data.images: the picture cannot be read: ")
    picture.unlink()
    sentence = f"task.data.train: user '7': there is no file '2.png' in {images}; fetch the data anew"
    assert _mistake(celeba, "celeba", images=images) == sentence
    for name in (2, None):
        _write(celeba / "train/a.json", _leaf({"7": {"x": [name], "y": [1]}}))
        sentence = f"task.data.train: user '7': x has {name}; it takes names of pictures"
        assert _mistake(celeba, "celeba", images=images) == sentence
