"""FedScale's mapping files in their true format, and every mistake in one as a sentence."""

import hashlib

import h5py
import numpy as np
import pytest
from pydantic import ValidationError

from fedhpc.data.preparation import fingerprint, prepare
from fedhpc.experiment import load_experiment
from fedhpc.mistakes import ExperimentError
from workflow.results_folder import read_experiment, write_experiment

HEADING = "client_id,sample_path,label_name,label_id\n"
# Two speakers' words, as in the folder client_data_mapping of FedScale's Google Speech; '012c8314' says 'up' twice.
MAPPING = (
    HEADING
    + "012c8314,up_012c8314_nohash_0.wav,up,0\n"
    + "004ae714,two_004ae714_nohash_0.wav,two,1\n"
    + "012c8314,up_012c8314_nohash_1.wav,up,0\n"
    + "012c8314,bed_012c8314_nohash_0.wav,bed,34\n"
)
NAMES = [
    "bed_012c8314_nohash_0.wav",
    "up_012c8314_nohash_0.wav",
    "two_004ae714_nohash_0.wav",
    "cat_0a0b46ae_nohash_0.wav",  # nobody's
    "up_012c8314_nohash_1.wav",
    "no_0132a06d_nohash_0.wav",  # held out
]
DATA = {"source": "file", "path": "speech.h5", "features": "x", "label": "word", "split": "part", "held_out_value": 1}
NAMED = DATA | {"sample": "name"}
PARTITION = {"kind": "fedscale", "path": "train.csv"}


@pytest.fixture
def folder(tmp_path):
    _write_data(tmp_path, NAMES)
    (tmp_path / "train.csv").write_text(MAPPING)
    return tmp_path


def _write_data(folder, names, held_out=(5,)):
    with h5py.File(folder / "speech.h5", "w") as file:
        file["x"] = np.arange(len(names))[:, None] + 10.0
        file["word"] = [name.partition("_")[0] for name in names]
        file["part"] = np.isin(np.arange(len(names)), held_out).astype(int)
        file["name"] = names


def _held(data):
    """Client -> its examples' features."""
    starts = zip(data.client_names, data.offsets, data.offsets[1:], strict=False)
    return {name: data.features[start:end, 0].tolist() for name, start, end in starts}


def _refused(task, folder, data=NAMED, partition=PARTITION):
    with pytest.raises(ExperimentError) as error:
        prepare(task(data, partition), 0, folder, folder / "out")
    assert not (folder / "out").exists() or not list((folder / "out").iterdir())
    (sentence,) = error.value.mistakes
    return sentence


def test_a_client_has_the_samples_that_the_file_names(folder, opened):
    data = opened(NAMED, PARTITION)
    assert _held(data) == {"004ae714": [12], "012c8314": [10, 11, 14]}
    # The labels are the data's.
    assert [data.class_names[label] for label in data.labels] == ["two", "bed", "up", "up"]
    assert data.test_features.tolist() == [[15]]


def test_without_a_column_of_names_a_sample_is_a_rows_number(folder, opened):
    (folder / "train.csv").write_text(HEADING + "b,4,x,0\na,0,y,1\nb,2,x,0\n")
    assert _held(opened(DATA, PARTITION)) == {"a": [10], "b": [12, 14]}


def test_two_clients_may_hold_one_sample(folder, opened):
    (folder / "train.csv").write_text(HEADING + "a,0,,\nb,0,,\nb,1,,\n")
    assert _held(opened(DATA, PARTITION)) == {"a": [10], "b": [10, 11]}


def test_held_out_samples_stay_held_out(folder, opened):
    (folder / "train.csv").write_text(HEADING + "a,0,,\nc,5,,\na,5,,\nb,3,,\n")
    data = opened(DATA, PARTITION)
    assert _held(data) == {"a": [10], "b": [13], "c": []}
    assert data.test_features.tolist() == [[15]]


def test_a_held_out_share_is_one_of_all_samples(folder, opened):
    source = {key: value for key, value in NAMED.items() if not key.startswith(("split", "held"))} | {"held_out": 0.5}
    data = opened(source, PARTITION)
    assert len(data.test_labels) == 3
    held, left = _held(data), set(np.arange(10.0, 16)) - set(data.test_features[:, 0])
    assert held["004ae714"] == sorted({12} & left)
    assert held["012c8314"] == sorted({10, 11, 14} & left)


def test_csv_data_and_missing_values(tmp_path, opened):
    (tmp_path / "d.csv").write_text("file,age,ill,part\na.png,1,0,0\nb.png,,1,0\nc.png,3,1,0\n,4,0,1\n")
    (tmp_path / "train.csv").write_text(HEADING + "u,c.png,,\nu,b.png,,\nv,a.png,,\n")
    data = {"source": "file", "path": "d.csv", "features": "*", "label": "ill", "sample": "file"}
    split = {"split": "part", "held_out_value": 1, "drop_missing": True}
    # The column of names is no feature, and a row that is left out is no mistake of the mapping's.
    assert _held(opened(data | split, PARTITION)) == {"u": [3], "v": [1]}


def test_arrays_that_come_apart(tmp_path, opened):
    np.savez(
        tmp_path / "d.npz",
        x_train=np.arange(3.0),
        y_train=[0, 1, 0],
        id_train=[900, 901, 17],
        x_test=np.arange(2.0),
        y_test=[0, 1],
    )
    data = {"source": "file", "path": "d.npz", "features": "x_{split}", "label": "y_{split}"}
    (tmp_path / "train.csv").write_text(HEADING + "u,17,,\nv,900,,\n")
    assert _held(opened(data | {"sample": "id_{split}"}, PARTITION)) == {"u": [2], "v": [0]}
    (tmp_path / "train.csv").write_text(HEADING + "u,1,,\n")
    assert _held(opened(data, PARTITION)) == {"u": [1]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "the file is empty; its first line is client_id,sample_path,label_name,label_id"),
        (HEADING, "the file names no sample under its heading"),
        (
            "client_id,label_name\na,up\n",
            "line 1 names no column 'sample_path', but 'client_id', 'label_name'",
        ),
        ("user,file\na,b\n", "line 1 names no column 'client_id' or 'sample_path', but 'user', 'file'"),
        (HEADING + "\na,b\n", "line 3 has 2 cells, but line 1 names 4 columns"),
        (HEADING + f"a,{NAMES[0]},,\n,{NAMES[1]},,\n", "line 3 has no client_id"),
        (HEADING + "a, ,,\n", "line 2 has no sample_path"),
        (
            HEADING + f"a,{NAMES[0]},,\na,off.wav,off,27\n",
            "line 3: the data hold no sample 'off.wav'; task.data.sample names their column, and without it they are "
            "numbered from 0",
        ),
        (
            HEADING + f"a,{NAMES[0]},,\nb,{NAMES[0]},,\na,{NAMES[0]},,\n",
            f"line 4: client 'a' has the sample '{NAMES[0]}' twice",
        ),
        (HEADING + f"a,{NAMES[5]},,\n", "none of its 1 samples is for training: all are held out"),
    ],
)
def test_mistakes_in_the_file(folder, task, content, sentence):
    (folder / "train.csv").write_text(content)
    assert _refused(task, folder) == f"task.partition.path: {sentence}"


def test_a_file_that_is_no_text(folder, task):
    (folder / "train.csv").write_bytes(HEADING.encode() + b"\xff\xfe,1,,\n")
    assert _refused(task, folder).startswith("task.partition.path: the file cannot be read as CSV in UTF-8: ")


def test_two_samples_of_one_name(folder, task):
    _write_data(folder, [*NAMES[:4], NAMES[0], NAMES[5]])
    assert _refused(task, folder) == (
        f"task.partition.path: the data hold two samples called '{NAMES[0]}', so that the file cannot tell them apart"
    )


def test_a_column_of_names_that_is_not_there(folder, task):
    sentence = _refused(task, folder, DATA | {"sample": "nam"})
    assert sentence.startswith("task.data.sample: the file has no column 'nam'; did you mean 'name'?; it has ")


def test_a_file_that_is_not_there(folder, task, monkeypatch):
    monkeypatch.delenv("FEDHPC_DATA", raising=False)
    (folder / "train.csv").unlink()
    assert _refused(task, folder) == (
        f"task.partition.path: there is no file 'train.csv'; looked in {folder} and nowhere else, since FEDHPC_DATA is "
        "not set"
    )
    (folder / "fetched").mkdir()
    (folder / "fetched" / "train.csv").write_text(MAPPING)
    monkeypatch.setenv("FEDHPC_DATA", str(folder / "fetched"))
    assert prepare(task(NAMED, PARTITION), 0, folder, folder / "out").exists()


def test_its_content_is_part_of_the_fingerprint_and_its_path_is_not(folder, task):
    def of(partition=PARTITION):
        prepared = prepare(task(NAMED, partition), 0, folder, folder / "out")
        return fingerprint(task(NAMED, partition), folder), prepared

    (first, prepared), speech = of(), hashlib.sha256((folder / "speech.h5").read_bytes()).hexdigest()
    assert first == f"sha256:{speech} sha256:{hashlib.sha256(MAPPING.encode()).hexdigest()}"
    (folder / "other.csv").write_text(MAPPING)
    assert of({"kind": "fedscale", "path": "other.csv"}) == (first, prepared)
    (folder / "train.csv").write_text(MAPPING.replace("004ae714,", "012c8314,"))
    changed, other = of()
    assert changed != first
    assert other != prepared


def test_a_mapping_is_for_a_data_file(task):
    with pytest.raises(ValidationError, match=r"partition\.kind: fedscale names the rows of a data file; take data of"):
        task({"source": "digits"}, PARTITION)


EXPERIMENT = """
title: Speakers
task:
  kind: classification
  data: {source: file, path: speech.h5, features: x, label: word, sample: name, split: part, held_out_value: 1}
  partition: {kind: fedscale, path: train.csv}
  model: {name: logistic}
client: {batch_size: 16, epochs: 1, optimizer: {name: sgd, rate: 0.1}}
server_optimizer: {name: sgd, rate: 1.0}
algorithms: {fedavg: {scheduler: synchronous, cohort: 2}}
scenarios: {even: {communication: {distribution: constant, value: 1}}}
trials: 1
budget: {server_updates: 2}
evaluation: {every: 2}
"""


def test_a_results_folder_names_it_by_its_absolute_path_and_hashes_stay(folder):
    (folder / "speakers.yaml").write_text(EXPERIMENT)
    experiment = load_experiment(folder / "speakers.yaml")
    (folder / "results").mkdir()
    write_experiment(experiment, folder / "results")
    again = read_experiment(folder / "results")
    assert again.task.partition.path == (folder / "train.csv").resolve()
    (run,) = experiment.runs()
    assert again.settings_of(run).digest("x") == experiment.settings_of(run).digest("x")
