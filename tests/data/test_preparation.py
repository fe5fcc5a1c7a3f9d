import fcntl
import hashlib
import multiprocessing
import os

import h5py
import numpy as np
import pytest
from pydantic import ValidationError

from fedhpc.data.federated import open_prepared
from fedhpc.data.preparation import _published, fingerprint, population_of, prepare
from fedhpc.mistakes import ExperimentError
from fedhpc.task import NullTask

DIGITS = {"source": "digits", "held_out": 0.2}
DIRICHLET = {"kind": "dirichlet", "clients": 60, "concentration": 0.5}
CSV = {
    "source": "file",
    "path": "d.csv",
    "features": ["x"],
    "label": "y",
    "client": "c",
    "split": "s",
    "held_out_value": 1,
}
ROWS = "x,y,c,s\n0,0,b,0\n1,1,a,0\n2,0,b,0\n3,2,c,0\n4,0,a,0\n5,1,z,1\n"


@pytest.fixture
def csv(tmp_path):
    (tmp_path / "d.csv").write_text(ROWS)
    return tmp_path / "d.csv"


def test_rows_lie_client_by_client_in_the_file_s_order(csv, opened):
    data = opened(CSV)
    assert data.features.tolist() == [[1], [4], [0], [2], [3]]
    assert data.labels.tolist() == [1, 0, 0, 0, 2]
    assert data.offsets.tolist() == [0, 2, 4, 5]
    assert (data.test_features.tolist(), data.test_labels.tolist()) == ([[5]], [1])
    assert (data.client_names, data.class_names, data.classes) == (("a", "b", "c"), ("0", "1", "2"), 3)
    assert (data.stragglers.tolist(), data.straggler_classes.tolist()) == ([False] * 3, [])
    assert [array.dtype for array in (data.features, data.labels, data.offsets)] == [np.float32, np.int64, np.int64]
    assert data.population.examples.tolist() == [2, 2, 1]
    assert data.shape == (1,)


def test_straggler_classes_stay_with_the_straggler_clients_and_in_the_held_out_examples(csv, opened):
    # Examples of classes 1 and 2: one each at a (class 1) and c (class 2); the lower index, a, is the straggler.
    data = opened(CSV, None, {"classes": [1, 2], "clients": 1})
    assert data.stragglers.tolist() == [True, False, False]
    assert data.features.tolist() == [[1], [4], [0], [2]]
    assert data.offsets.tolist() == [0, 2, 4, 4]  # c is left with nothing
    assert data.straggler_classes.tolist() == [1, 2]
    assert data.test_labels.tolist() == [1]
    assert data.population.stragglers.tolist() == [True, False, False]


def test_what_is_taken_away_is_counted(csv, opened):
    # Class 2 is c's alone, class 1 a's and held out: who is no straggler loses one of them.
    assert opened(CSV, None, {"classes": [1, 2], "clients": 1}).taken_away == 1
    assert opened(CSV).taken_away == 0


def test_who_bears_a_tag_is_a_straggler_client_and_nobody_loses_anything(csv, opened):
    data = opened({**CSV, "tag": "c"}, None, {"tags": ["b", "c"]})
    assert data.client_names == ("a", "b", "c")
    assert data.stragglers.tolist() == [False, True, True]
    assert data.features.tolist() == [[1], [4], [0], [2], [3]]
    assert data.test_tagged.tolist() == [False]
    assert (data.straggler_classes.tolist(), data.taken_away) == ([], 0)


def test_no_training_example_left_at_all(csv, opened):
    csv.write_text("x,y,c,s\n1,1,a,0\n2,1,b,0\n3,1,a,0\n4,0,a,1\n")
    data = opened(CSV, {"kind": "iid", "clients": 7}, {"classes": [1], "clients": 1})
    assert data.offsets.tolist() == [0, 1, 1, 1, 1, 1, 1, 1]
    csv.write_text("x,y,c,s\n1,1,,1\n2,1,b,0\n")
    assert opened(CSV).features.tolist() == [[2]]


def test_digits_are_all_there_once(opened):
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = digits.images, digits.target
    data = opened(DIGITS, DIRICHLET)
    assert len(data.test_labels) == round(0.2 * 1797) == 359
    assert data.features.max() == 1
    assert len(data.offsets) == 61
    found = np.concatenate([data.features, data.test_features])
    found_rows = sorted(zip((found * 16).astype(int).tolist(), [*data.labels, *data.test_labels], strict=True))
    assert found_rows == sorted(zip(images.astype(int).tolist(), labels.tolist(), strict=True))


def test_hard_et_al_s_question_on_the_digits(opened):
    plain = opened(DIGITS, DIRICHLET)
    data = opened(DIGITS, DIRICHLET, {"classes": [0, 1, 2, 3, 4], "clients": 15})
    before = [plain.labels[a:b] for a, b in zip(plain.offsets, plain.offsets[1:], strict=False)]
    after = [data.labels[a:b] for a, b in zip(data.offsets, data.offsets[1:], strict=False)]
    held = np.array([(labels < 5).sum() for labels in before])
    assert data.stragglers.sum() == 15
    assert held[data.stragglers].min() >= held[~data.stragglers].max()
    for straggler, old, new in zip(data.stragglers, before, after, strict=True):
        assert new.tolist() == [label for label in old if straggler or label >= 5]


def test_the_seed_decides_the_held_out_examples_and_the_partition(opened):
    first, again, other = opened(DIGITS, DIRICHLET), opened(DIGITS, DIRICHLET), opened(DIGITS, DIRICHLET, seed=1)
    np.testing.assert_array_equal(first.features, again.features)
    assert (first.test_features != other.test_features).any()
    assert first.offsets.tolist() != other.offsets.tolist()


def test_arrays_are_mapped_and_hashed_and_writing_to_them_leaves_the_file(csv, task, tmp_path):
    path = prepare(task(CSV), 0, tmp_path, tmp_path / "out")
    data = open_prepared(path)
    for array in (data.features, data.labels, data.test_features, data.test_labels):
        assert isinstance(array.base, np.memmap)
        array[:] = 0
    data = open_prepared(path)
    assert data.features.any()
    named = [(n, getattr(data, n)) for n in ("features", "labels", "test_features", "test_labels", "offsets")]
    named += [("stragglers", data.stragglers), ("straggler_classes", data.straggler_classes)]
    digest = hashlib.sha256()
    for name, array in named:
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    with h5py.File(path) as file:
        assert file.attrs["sha256"] == digest.hexdigest()


def test_a_prepared_file_is_kept_and_nothing_else_is_left(csv, task, tmp_path):
    folder = tmp_path / "a/b"
    path = prepare(task(CSV), 0, tmp_path, folder)
    written = path.stat()
    assert prepare(task(CSV), 0, tmp_path, folder) == path
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
    assert [entry.name for entry in folder.iterdir()] == [path.name]
    assert path.suffix != ".h5"


def test_a_failed_preparation_leaves_nothing(csv, task, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="full"):
        prepare(task(CSV), 0, tmp_path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_another_process_published_meanwhile_is_kept(tmp_path):
    path = tmp_path / "d.hdf5"
    with _published(path) as file:
        file["x"] = [1]
        path.write_text("the other's, perhaps mapped already")
    assert path.read_text() == "the other's, perhaps mapped already"
    assert list(tmp_path.iterdir()) == [path]


def test_no_file_lock_is_waited_for(csv, task, tmp_path, monkeypatch):
    monkeypatch.delenv("HDF5_USE_FILE_LOCKING", raising=False)
    path = prepare(task(CSV), 0, tmp_path, tmp_path)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert len(open_prepared(path).labels) == 5


def test_empty_arrays_open_too(tmp_path):
    with h5py.File(tmp_path / "empty.hdf5", "w") as file:
        for prefix in ("", "test_"):
            file[f"{prefix}features"] = np.empty((0, 2, 3), np.float32)
            file[f"{prefix}labels"] = np.empty(0, np.int64)
        file["offsets"], file["stragglers"] = np.zeros(2, np.int64), np.zeros(1, bool)
        file["straggler_classes"] = np.empty(0, np.int64)
        file["client_names"], file["class_names"] = np.array([b"a"]), np.array([b"0"])
    data = open_prepared(tmp_path / "empty.hdf5")
    assert (data.features.shape, data.features.dtype) == ((0, 2, 3), np.float32)
    assert (data.labels.shape, data.shape, data.classes) == ((0,), (2, 3), 1)


def test_the_name_depends_on_all_that_the_data_depend_on_and_on_nothing_else(csv, task, tmp_path):
    def name(*blocks, seed=0):
        return prepare(task(*blocks), seed, tmp_path, tmp_path / "out").name

    first = name(CSV)
    others = {
        name(CSV, seed=1),
        name(CSV | {"scaling": "unit"}),
        name(CSV, {"kind": "iid", "clients": 3}),
        name(CSV, None, {"classes": [1], "clients": 1}),
    }
    assert len(others | {first}) == 5
    (tmp_path / "moved.csv").write_text(ROWS)
    assert name(CSV | {"path": "moved.csv"}) == first  # the content counts, not the place
    csv.write_text(ROWS.replace("5,1", "6,1"))
    assert name(CSV) != first


def test_the_model_is_no_part_of_the_data(csv, task, tmp_path):
    one = task(CSV)
    other = one.model_validate(one.model_dump() | {"model": {"name": "mlp"}})
    assert prepare(one, 0, tmp_path, tmp_path) == prepare(other, 0, tmp_path, tmp_path)


def test_fingerprints(csv, task, tmp_path):
    assert fingerprint(task(CSV), tmp_path) == "sha256:" + hashlib.sha256(ROWS.encode()).hexdigest()
    assert fingerprint(task(DIGITS, DIRICHLET), tmp_path) == "digits"
    changed = ROWS.replace("5,1", "6,1")
    csv.write_text(changed)
    assert fingerprint(task(CSV), tmp_path) == "sha256:" + hashlib.sha256(changed.encode()).hexdigest()


def test_a_read_only_source(csv, task, tmp_path):
    (tmp_path / "data").mkdir()
    with h5py.File(tmp_path / "data/d.h5", "w") as file:
        file["x"], file["y"] = np.arange(10.0), np.arange(10) % 2
    (tmp_path / "data/d.h5").chmod(0o444)
    (tmp_path / "data").chmod(0o555)
    try:
        source = {"source": "file", "path": "data/d.h5", "features": "x", "label": "y", "held_out": 0.5}
        assert (
            len(open_prepared(prepare(task(source, {"kind": "iid", "clients": 2}), 0, tmp_path, tmp_path)).labels) == 5
        )
    finally:
        (tmp_path / "data").chmod(0o755)


def _prepare(barrier, arguments, results):
    barrier.wait()
    results.put(str(prepare(*arguments)))


def test_processes_that_prepare_at_once_agree(csv, task, tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(4), context.Queue()
    arguments = (task(CSV), 0, tmp_path, tmp_path / "out")
    processes = [context.Process(target=_prepare, args=(barrier, arguments, results)) for _ in range(4)]
    for process in processes:
        process.start()
    paths = {results.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(paths) == 1
    assert [str(path) for path in (tmp_path / "out").iterdir()] == list(paths)
    assert open_prepared(tmp_path / paths.pop()).features.tolist() == [[1], [4], [0], [2], [3]]


@pytest.mark.parametrize(
    ("stragglers", "sentence"),
    [
        (
            {"classes": [1, 3], "clients": 1},
            "task.stragglers.classes: there is no class 3; the classes are numbered 0 to 2, for the labels 0, 1, 2",
        ),
        (
            {"classes": [1], "clients": 4},
            "task.stragglers.clients: 4 exceeds the data's 3 clients; lower it",
        ),
    ],
)
def test_stragglers_that_cannot_be_had(csv, task, tmp_path, stragglers, sentence):
    with pytest.raises(ExperimentError) as error:
        prepare(task(CSV, None, stragglers), 0, tmp_path, tmp_path / "out")
    assert error.value.mistakes == [sentence]


def test_straggler_classes_that_only_held_out_examples_have(csv, task, tmp_path):
    csv.write_text("x,y,c,s\n1,0,a,0\n2,1,a,1\n")
    with pytest.raises(ExperimentError, match=r"task\.stragglers\.classes: no client has a training example of "):
        prepare(task(CSV, None, {"classes": [1], "clients": 1}), 0, tmp_path, tmp_path / "out")


def test_synthetic_stragglers_are_counted_with_the_settings(task):
    synthetic = {"source": "synthetic", "alpha": 1, "beta": 1, "clients": 3}
    with pytest.raises(ValidationError, match=r"stragglers\.clients: 4 exceeds data\.clients 3"):
        task(synthetic, {"kind": "by_column"}, {"classes": [0], "clients": 4})


def test_population_of_any_task(csv, task, tmp_path):
    null = population_of(NullTask(kind="null", clients=4, examples=7, stragglers=1), None)
    assert (null.examples.tolist(), null.stragglers.tolist()) == ([7] * 4, [False, False, False, True])
    prepared = prepare(task(CSV), 0, tmp_path, tmp_path)
    assert population_of(task(CSV), prepared).examples.tolist() == [2, 2, 1]


def test_straggler_classes_may_be_named_where_labels_are_words(tmp_path, opened):
    (tmp_path / "d.csv").write_text(ROWS.replace(",0,", ",well,").replace(",1,", ",ill,").replace(",2,", ",dead,"))
    # In their order: dead, ill, well. The two of class 0 and class 1 lie at a and c; a is the first.
    named = opened(CSV, None, {"classes": ["ill", "dead"], "clients": 1})
    assert named.class_names == ("dead", "ill", "well")
    assert named.straggler_classes.tolist() == [1, 0]
    numbered = opened(CSV, None, {"classes": [1, 0], "clients": 1})
    assert numbered.stragglers.tolist() == named.stragglers.tolist() == [True, False, False]
    assert numbered.features.tolist() == named.features.tolist()
    with pytest.raises(ExperimentError, match=r"there is no class il; .* for the labels dead, ill, well"):
        opened(CSV, None, {"classes": ["il"], "clients": 1})


def test_each_trial_has_a_partition_of_its_own_where_that_is_asked_for(task, tmp_path):
    def prepared(trial, **keys):
        return prepare(task(DIGITS, DIRICHLET | keys), 0, tmp_path, tmp_path / "out", trial)

    shared = [prepared(trial) for trial in (0, 1, 7)]
    assert len(set(shared)) == 1
    assert prepared(1, each_trial=False) == shared[0]
    own = [prepared(trial, each_trial=True) for trial in (0, 1, 7)]
    assert len({*own, shared[0]}) == 4
    first, zero, one, seven = (open_prepared(path) for path in (shared[0], *own))
    np.testing.assert_array_equal(zero.features, first.features)
    assert zero.offsets.tolist() == first.offsets.tolist()
    assert len({tuple(data.offsets) for data in (zero, one, seven)}) == 3
    # What is held out, and so what is dealt, is the same in all.
    for other in (one, seven):
        np.testing.assert_array_equal(other.test_features, first.test_features)
        assert sorted(other.features.sum(axis=(1, 2))) == sorted(first.features.sum(axis=(1, 2)))
        assert other.labels.tolist() != first.labels.tolist()


def test_a_seeds_trials_are_not_another_seeds(task, tmp_path):
    own = task(DIGITS, DIRICHLET | {"each_trial": True})
    paths = [prepare(own, seed, tmp_path, tmp_path / "out", trial) for seed in (0, 1) for trial in (0, 1)]
    assert len({tuple(open_prepared(path).offsets) for path in paths}) == 4


def test_examples_that_nobody_gets_are_left_out(csv, opened):
    # Ten of class 0 and seven of class 1, of which both clients get one and then an equal share of the rest: 4 and 2.5.
    rows = [f"{number},{int(number >= 10)},a,0" for number in range(17)] + ["99,0,a,1"]
    csv.write_text("\n".join(["x,y,c,s", *rows]) + "\n")
    data = opened(CSV, {"kind": "two_classes", "clients": 2, "least": 1, "sigma": 0})
    assert data.class_counts.tolist() == [[5, 3], [5, 3]]
    assert len(set(data.features[:, 0].tolist())) == 16
    assert data.labels.tolist() == [int(value >= 10) for value in data.features[:, 0]]
    stragglers = opened(
        CSV, {"kind": "two_classes", "clients": 2, "least": 1, "sigma": 0}, {"classes": [1], "clients": 1}
    )
    assert stragglers.class_counts.tolist() == [[5, 3], [5, 0]]


def test_clients_may_hold_copies_of_the_same_examples(csv, opened):
    partition = {"kind": "label_limited", "clients": 4, "labels": 2, "examples": 3, "distribution": "uniform"}
    rows = [f"{number},{int(number % 3)},a,0" for number in range(12)] + ["99,0,a,1"]
    csv.write_text("\n".join(["x,y,c,s", *rows]) + "\n")
    data = opened(CSV, partition)
    assert data.offsets.tolist() == [0, 3, 6, 9, 12]
    assert data.labels.tolist() == (data.features[:, 0] % 3).tolist()
    assert len(set(data.features[:, 0].tolist())) < 12
    for start in range(0, 12, 3):
        own = data.features[start : start + 3, 0].tolist()
        assert own == sorted(set(own))
    # Straggler clients keep their copies of a straggler class, and all others lose theirs.
    (held,) = (data.class_counts[:, 0],)
    stragglers = opened(CSV, partition, {"classes": [0], "clients": 1})
    (straggler,) = np.flatnonzero(stragglers.stragglers)
    assert held[straggler] == held.max() > 0
    expected = data.class_counts
    expected[np.arange(4) != straggler, 0] = 0
    assert stragglers.class_counts.tolist() == expected.tolist()


def test_copies_are_drawn_anew_in_each_trial(task, tmp_path):
    partition = {"kind": "label_limited", "clients": 20, "labels": 3, "distribution": "zipf", "each_trial": True}
    paths = [prepare(task(DIGITS, partition), 0, tmp_path, tmp_path / "out", trial) for trial in (0, 1)]
    zero, one = map(open_prepared, paths)
    assert zero.offsets.tolist() == one.offsets.tolist() == list(range(0, 20 * 71 + 1, 71))  # 1,438 // 20
    assert zero.labels.tolist() != one.labels.tolist()
    np.testing.assert_array_equal(zero.test_features, one.test_features)


def test_what_cannot_be_dealt_is_told_of_the_partition(csv, task, tmp_path):
    partition = {"kind": "class_partition", "clients": 3, "least_classes": 1, "most_classes": 4}
    with pytest.raises(ExperimentError) as error:
        prepare(task(CSV, partition), 0, tmp_path, tmp_path / "out")
    assert error.value.mistakes == [
        "task.partition.most_classes: 4 exceeds the 3 classes of the training data; lower it"
    ]


def test_what_a_killed_preparation_left_is_taken_away(tmp_path):
    path = tmp_path / "d.hdf5"

    def killed():
        with _published(path) as file:
            file["x"] = [1]
            file.flush()
            os.kill(os.getpid(), 9)

    process = multiprocessing.get_context("fork").Process(target=killed)
    process.start()
    process.join()
    assert len(list(tmp_path.iterdir())) == 1
    assert not path.exists()
    with _published(path) as file:
        file["x"] = [1]
    assert list(tmp_path.iterdir()) == [path]
