"""Files in true formats, and every mistake in one as a sentence with its key."""

import re

import h5py
import numpy as np
import pytest

from fedhpc.data.paths import find_data
from fedhpc.data.settings import DataFile
from fedhpc.data.sources import load
from fedhpc.mistakes import ExperimentError

SIX_ROWS = """age,dose,site,part,outcome
1,0.5,north,train,well
2,0.25,south,train,ill
3,,north,test,well
4,1,east,train,ill
5,2,,test,well
"""


def _load(folder, keeps_clients=True, seed=0, tags=(), **settings):
    source = DataFile(source="file", **settings)
    source = source.model_copy(update={"path": find_data(source.path, folder)})
    return load(source, keeps_clients and source.client is not None, tags, np.random.default_rng(seed), folder)


def _mistakes(folder, **settings):
    with pytest.raises(ExperimentError) as error:
        _load(folder, **settings)
    return error.value.mistakes


@pytest.fixture
def arrays():
    return {
        "x_train": np.arange(24, dtype=np.uint8).reshape(4, 2, 3),
        "y_train": np.array([1, 0, 2, 1]),
        "user_train": np.array([7, 3, 7, 3]),
        "x_test": np.full((2, 2, 3), 9, np.uint8),
        "y_test": np.array([2, 0]),
    }


def _write(path, arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file.create_dataset(name, data=values, compression="gzip" if np.ndim(values) else None)


@pytest.mark.parametrize("name", ["d.h5", "d.npz"])
def test_arrays_of_two_splits(tmp_path, arrays, name):
    _write(tmp_path / name, arrays)
    data = _load(tmp_path, path=name, features="x_{split}", label="y_{split}", client="user_{split}")
    assert data.features.dtype == np.float32
    np.testing.assert_array_equal(data.features[:4], arrays["x_train"])
    np.testing.assert_array_equal(data.features[4:], arrays["x_test"])
    assert data.labels.tolist() == [1, 0, 2, 1, 2, 0]
    assert data.held_out.tolist() == [False] * 4 + [True] * 2
    assert data.clients[:4].tolist() == [1, 0, 1, 0]
    assert data.client_names == ("3", "7")
    assert data.class_names == ("0", "1", "2")


@pytest.mark.parametrize("name", ["d.h5", "d.npz"])
def test_arrays_side_by_side_with_text_columns(tmp_path, name):
    text = np.array([b"x", b"y", b"x", b"x"])
    columns = {"a": np.arange(4), "b": np.arange(8.0).reshape(4, 2), "who": text, "label": text}
    _write(tmp_path / name, columns)
    data = _load(tmp_path, path=name, features=["b", "a"], label="label", client="who", held_out=0.5)
    assert data.features.tolist() == [[0, 1, 0], [2, 3, 1], [4, 5, 2], [6, 7, 3]]
    assert data.labels.tolist() == [0, 1, 0, 0]
    assert (data.client_names, data.class_names) == (("x", "y"), ("x", "y"))
    # Of x's three examples round(1.5) = 2 are held out, and y keeps its only one.
    assert [int(data.held_out[data.clients == client].sum()) for client in (0, 1)] == [2, 0]


def test_hdf5_strings_of_variable_length_in_a_group(tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["g/x"] = np.arange(4.0)
        file["g/y"] = ["cat", "dög", "cat", "cat"]
        file["g/part"] = ["a", "a", "b", "b"]
    data = _load(tmp_path, path="d.h5", features="g/x", label="g/y", split="g/part", held_out_value="b")
    assert data.features.tolist() == [[0], [1], [2], [3]]
    assert data.class_names == ("cat", "dög")
    assert data.held_out.tolist() == [False, False, True, True]


def test_csv_by_split_column_with_missing_values_dropped(tmp_path):
    (tmp_path / "d.csv").write_text(SIX_ROWS, encoding="utf-8-sig")
    columns = {"features": "*", "label": "outcome", "client": "site", "split": "part", "held_out_value": "test"}
    data = _load(tmp_path, path="d.csv", drop_missing=True, **columns)
    # The third line lacks a dose; the fifth lacks only a client, which a held-out example does not need.
    assert data.features.tolist() == [[1, 0.5], [2, 0.25], [4, 1], [5, 2]]
    assert data.class_names == ("ill", "well")
    assert data.labels.tolist() == [1, 0, 0, 1]
    assert data.held_out.tolist() == [False, False, False, True]
    assert data.client_names == ("east", "north", "south")
    assert data.clients[:3].tolist() == [1, 2, 0]


def test_tags_in_a_column(tmp_path):
    (tmp_path / "d.csv").write_text(SIX_ROWS.replace("5,2,,test", "5,2,east,test"))
    columns = {"path": "d.csv", "features": "age", "label": "outcome", "split": "part", "held_out_value": "test"}
    data = _load(tmp_path, tags=["east", "north"], tag="site", client="site", **columns)
    assert data.tagged.tolist() == [True, False, True, True, True]
    assert _load(tmp_path, tag="site", **columns).tagged is None
    # A column of tags is no feature.
    assert _load(tmp_path, tag="dose", client="site", **{**columns, "features": "*"}).features.tolist() == [
        [age] for age in range(1, 6)
    ]
    assert _mistakes(tmp_path, tags=["east", "west"], tag="site", **columns) == [
        "task.stragglers.tags: no training example bears west; 'site' holds east, north, south"
    ]


@pytest.mark.parametrize("name", ["d.h5", "d.npz"])
def test_tags_in_arrays_of_two_splits(tmp_path, arrays, name):
    _write(tmp_path / name, {**arrays, "where_train": np.array([3, 3, 5, 7]), "where_test": np.array([5, 9])})
    named = {"path": name, "features": "x_{split}", "label": "y_{split}", "client": "user_{split}"}
    data = _load(tmp_path, tags=["3", "5"], tag="where_{split}", **named)
    assert data.tagged.tolist() == [True, True, True, False, True, False]
    assert data.held_out.tolist() == [False] * 4 + [True] * 2
    with pytest.raises(ValueError, match=r"tag: holds no \{split\}, but other keys do"):
        _load(tmp_path, tag="where", **named)


def test_csv_with_a_share_of_all_examples_held_out_where_its_clients_are_not_used(tmp_path):
    lines = [f"{i},{i % 2},{i % 5}" for i in range(50)]
    (tmp_path / "d.csv").write_text("\n".join(["x,y,who", *lines]))
    settings = {"path": "d.csv", "features": "x", "label": "y", "client": "who", "held_out": 0.3}
    data = _load(tmp_path, keeps_clients=False, **settings)
    assert data.clients is None
    assert data.features.tolist() == [[i] for i in range(50)]
    assert data.held_out.sum() == 15
    assert (data.held_out != _load(tmp_path, keeps_clients=False, seed=1, **settings).held_out).any()


def test_chosen_columns_alone_count_as_missing(tmp_path):
    x = np.array([[1, 2, np.nan], [3, 4, 5], [np.nan, 6, 7]])
    _write(tmp_path / "d.npz", {"x": x, "y": np.array([0, 1, 1]), "s": np.array([1, 0, 0])})
    common = {"path": "d.npz", "features": "x", "label": "y", "split": "s", "held_out_value": 1, "drop_missing": True}
    assert _load(tmp_path, columns=[1, 0], **common).features.tolist() == [[2, 1], [4, 3]]
    assert _mistakes(tmp_path, columns=[3], **common) == [
        "task.data.columns: there is no column 3; an example's features are of shape 3"
    ]


def test_scaling_is_by_the_training_examples(tmp_path, arrays):
    arrays["x_test"] = np.full((2, 2, 3), 255, np.uint8)
    _write(tmp_path / "d.npz", arrays)
    settings = {"path": "d.npz", "features": "x_{split}", "label": "y_{split}"}
    standard = _load(tmp_path, scaling="standard", **settings)
    np.testing.assert_allclose(standard.features[:4].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(standard.features[:4].std(axis=0), 1, atol=1e-6)
    assert _load(tmp_path, scaling="unit", **settings).features[5].ravel().tolist() == [1] * 6


# Mistakes.


def test_a_missing_file_is_looked_for_beside_the_experiment_and_in_fedhpc_data(tmp_path, monkeypatch):
    settings = {"path": "sub/d.csv", "features": "x", "label": "y", "held_out": 0.5}
    monkeypatch.delenv("FEDHPC_DATA", raising=False)
    (sentence,) = _mistakes(tmp_path, **settings)
    assert sentence == (
        f"task.data.path: there is no file 'sub/d.csv'; looked in {tmp_path} and nowhere else, "
        "since FEDHPC_DATA is not set"
    )
    monkeypatch.setenv("FEDHPC_DATA", str(tmp_path / "store"))
    (sentence,) = _mistakes(tmp_path, **settings)
    assert sentence.endswith(f"looked in {tmp_path} and in FEDHPC_DATA={tmp_path / 'store'}")
    (tmp_path / "store/sub").mkdir(parents=True)
    (tmp_path / "store/sub/d.csv").write_text("x,y\n1,0\n2,1\n")
    assert len(_load(tmp_path, **settings).labels) == 2
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/d.csv").write_text("x,y\n1,0\n2,1\n3,1\n")
    assert len(_load(tmp_path, **settings).labels) == 3  # beside the experiment comes first


def test_every_unknown_column_is_named_with_the_nearest(tmp_path):
    (tmp_path / "d.csv").write_text("age,label\n1,0\n")
    mistakes = _mistakes(tmp_path, path="d.csv", features=["agee"], label="lable", held_out=0.5)
    assert mistakes == [
        "task.data.features: the file has no column 'agee'; did you mean 'age'?; it has 'age', 'label'",
        "task.data.label: the file has no column 'lable'; did you mean 'label'?; it has 'age', 'label'",
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "task.data.path: the file is empty; its first line names the columns"),
        ("x,y\n", "task.data.path: the file holds no examples"),
        ("x,x,y\n1,2,3\n", "task.data.path: line 1 names the column 'x' twice"),
        ("x,y\n1,0\n2\n", "task.data.path: line 3 has 1 cells, but line 1 names 2 columns"),
        (
            "x,y\n1,0\n\n1o,0\n",
            "task.data.features: line 4, column 'x': '1o' is no number; mend it, or name the columns that are features",
        ),
        ("x,y\n1,0.5\n2,1\n", "task.data.label: 'y' holds fractions; labels are whole numbers or text"),
        (
            "x,y\n1,0\n?,1\nNA,\n",
            "task.data.features: 2 of 3 examples have a missing value; set task.data.drop_missing: true to leave them "
            "out",
        ),
        ("x,y\ninf,0\n2,1\n", "task.data.features: some values are infinite, or too large for 32-bit numbers"),
        ("x,y\n1,0\n", "task.data.held_out: of 1 examples none is held out; it takes some of both"),
    ],
)
def test_mistakes_in_a_csv(tmp_path, content, sentence):
    (tmp_path / "d.csv").write_text(content)
    assert sentence in _mistakes(tmp_path, path="d.csv", features=["x"], label="y", held_out=0.5)


def test_a_csv_that_is_no_text(tmp_path):
    (tmp_path / "d.csv").write_bytes(b"x,y\n\xff\xfe,1\n")
    (sentence,) = _mistakes(tmp_path, path="d.csv", features="x", label="y", held_out=0.5)
    assert sentence.startswith("task.data.path: the file cannot be read as CSV in UTF-8: ")


def test_a_csv_with_no_column_left_for_the_features(tmp_path):
    (tmp_path / "d.csv").write_text("y\n1\n")
    (sentence,) = _mistakes(tmp_path, path="d.csv", features="*", label="y", held_out=0.5)
    assert sentence == "task.data.features: '*' stands for every column not named elsewhere, and there is none"


def test_dropping_everything_leaves_nothing(tmp_path):
    (tmp_path / "d.csv").write_text("x,y\n,0\n1,\n")
    (sentence,) = _mistakes(tmp_path, path="d.csv", features="x", label="y", held_out=0.5, drop_missing=True)
    assert sentence == "task.data.drop_missing: all 2 examples have a missing value, so that none is left"


def test_a_training_example_without_client(tmp_path):
    (tmp_path / "d.csv").write_text("x,y,c\n1,0,\n2,1,b\n")
    (sentence,) = _mistakes(tmp_path, path="d.csv", features="x", label="y", client="c", held_out=0.5)
    assert sentence.startswith("task.data.client: 1 of 2 examples have a missing value; ")


@pytest.mark.parametrize("name", ["d.h5", "d.npz"])
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"y_train": np.array([0, 1, 2])},
            "task.data.label: the arrays are of unequal length: 'y_train' has 3, 'x_train' 4",
        ),
        (
            {"x_test": np.zeros((2, 3, 2), np.uint8)},
            "task.data.features: training examples are of shape 2x3, held-out ones 3x2",
        ),
        (
            {"y_train": np.eye(4)},
            "task.data.label: 'y_train' is of shape 4x4; it takes one value an example",
        ),
        (
            {"x_train": np.array([b"a", b"b", b"c", b"d"])},
            "task.data.features: 'x_train' holds text; features are numbers",
        ),
        (
            {"y_train": np.array(3)},
            "task.data.label: 'y_train' is a single value; it takes an array of numbers or strings",
        ),
        (
            {"x_test": np.zeros((0, 2, 3), np.uint8), "y_test": np.zeros(0, int)},
            "task.data.features: of 4 examples none is held out; it takes some of both",
        ),
    ],
)
def test_mistakes_in_arrays(tmp_path, arrays, name, changed, sentence):
    _write(tmp_path / name, arrays | changed)
    settings = {"features": "x_{split}", "label": "y_{split}", "client": "user_{split}"}
    assert _mistakes(tmp_path, path=name, **settings) == [sentence]


def test_a_split_column_without_the_held_out_value(tmp_path):
    _write(tmp_path / "d.npz", {"x": np.arange(3), "y": np.arange(3), "part": np.array(["a", "b", "a"])})
    (sentence,) = _mistakes(tmp_path, path="d.npz", features="x", label="y", split="part", held_out_value="test")
    assert sentence == "task.data.held_out_value: no row has 'test' in 'part', but 'a', 'b'"


def test_python_objects_in_an_npz_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.array([{"a": 1}, None], dtype=object), y=np.arange(2))
    (sentence,) = _mistakes(tmp_path, path="d.npz", features="x", label="y", held_out=0.5)
    assert sentence == "task.data.features: 'x' is an array of Python objects; save numbers or strings"


@pytest.mark.parametrize(("name", "format_name"), [("d.h5", "HDF5"), ("d.npz", "NPZ")])
def test_a_truncated_or_foreign_file(tmp_path, arrays, name, format_name):
    path = tmp_path / name
    settings = {"path": name, "features": "x_{split}", "label": "y_{split}"}
    _write(path, arrays)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"no data at all, " * 10):
        path.write_bytes(content)
        (sentence,) = _mistakes(tmp_path, **settings)
        assert re.match(f"task.data.path: the file cannot be read as {format_name}: .", sentence)


def test_a_single_npy_array_is_no_npz(tmp_path):
    with (tmp_path / "d.npz").open("wb") as file:
        np.save(file, np.arange(3))
    (sentence,) = _mistakes(tmp_path, path="d.npz", features="x", label="y", held_out=0.5)
    assert sentence == "task.data.path: the file is a single array and no NPZ; write it with numpy.savez"


def test_a_damaged_array_is_named(tmp_path):
    _write(tmp_path / "d.npz", {"x": np.arange(1000.0), "y": np.arange(1000)})
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[4000] ^= 255  # inside x
    (tmp_path / "d.npz").write_bytes(content)
    (sentence,) = _mistakes(tmp_path, path="d.npz", features="x", label="y", held_out=0.5)
    assert sentence.startswith("task.data.features: 'x' cannot be read: ")


def test_an_array_that_lies_in_another_file(tmp_path):
    layout = h5py.VirtualLayout((2, 1), np.float32)
    layout[:] = h5py.VirtualSource("gone.h5", "x", (2, 1))
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=0)
        file["y"] = [0, 1]
    (sentence,) = _mistakes(tmp_path, path="d.h5", features="x", label="y", held_out=0.5)
    told = "it lies in another file, whose changes would go unnoticed; copy its numbers into this one"
    assert sentence == f"task.data.features: 'x' cannot be read: {told}"
