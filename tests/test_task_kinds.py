"""Which data go with which kind of task, partition and stragglers, each mistake as a sentence."""

import pytest
from pydantic import TypeAdapter, ValidationError

from fedhpc.task import Task

IXI = {"source": "flamby", "dataset": "ixi", "folder": "ixi"}
HEART = {"source": "flamby", "dataset": "heart_disease", "folder": "heart"}
SENTENCES = {
    "source": "tff",
    "dataset": "stackoverflow",
    "train": "train.h5",
    "test": "test.h5",
    "vocabulary": "stackoverflow.word_count",
}
EMNIST = {"source": "tff", "dataset": "emnist", "train": "emnist.sqlite"}
LEAF = {"source": "leaf", "train": "train", "test": "test"}
CIFAR = {"source": "cifar", "dataset": "cifar10", "folder": "cifar-10-batches-bin"}
MNIST = {"source": "idx", "images": "a", "labels": "b", "test_images": "c", "test_labels": "d"}
BY_COLUMN, IID = {"kind": "by_column"}, {"kind": "iid", "clients": 3}
DIRICHLET = {"kind": "dirichlet", "clients": 3, "concentration": 1}


def _task(kind, data, partition=BY_COLUMN, stragglers=None):
    model = {"next_words": "stackoverflow_lstm", "segmentation": "unet3d"}.get(kind, "logistic")
    block = {"kind": kind, "data": data, "partition": partition, "model": {"name": model}}
    return TypeAdapter(Task).validate_python(block | ({"stragglers": stragglers} if stragglers else {}))


@pytest.mark.parametrize(
    ("kind", "data", "partition"),
    [
        ("segmentation", IXI, BY_COLUMN),
        ("segmentation", IXI, IID),
        ("next_words", SENTENCES, BY_COLUMN),
        ("classification", HEART, BY_COLUMN),
        ("classification", HEART, DIRICHLET),
        ("classification", CIFAR, DIRICHLET),
        ("classification", MNIST, IID),
        ("classification", MNIST | {"writers": "e"}, BY_COLUMN),
    ],
)
def test_what_goes_together(kind, data, partition):
    assert _task(kind, data, partition).kind == kind


@pytest.mark.parametrize(
    ("kind", "data", "partition", "stragglers", "sentence"),
    [
        ("classification", IXI, BY_COLUMN, None, "source: flamby, dataset ixi, labels each voxel; take kind segment"),
        ("classification", SENTENCES, BY_COLUMN, None, "source: tff, dataset stackoverflow, labels each next token; "),
        ("segmentation", HEART, BY_COLUMN, None, "source: flamby, dataset heart_disease, labels each example; take "),
        ("segmentation", CIFAR, IID, None, "source: cifar labels each example; take kind classification, or source "),
        (
            "next_words",
            MNIST,
            IID,
            None,
            "source: idx labels each example; take kind classification, or source tff, da",
        ),
        ("next_words", IXI, IID, None, "source: flamby, dataset ixi, labels each voxel; take kind segmentation, or "),
        ("classification", CIFAR, BY_COLUMN, None, "partition.kind: by_column needs data that bring clients along; ta"),
        ("classification", MNIST, BY_COLUMN, None, "data.writers: missing; partition.kind by_column needs the file of"),
        ("segmentation", IXI, DIRICHLET, None, "partition.kind: dirichlet deals examples by their labels, of which "),
        ("segmentation", IXI, BY_COLUMN, {"classes": [1], "clients": 1}, "stragglers.classes: an example here has man"),
        ("classification", HEART, BY_COLUMN, {"tags": ["math"]}, "stragglers.tags: only a file's column and tff's"),
        ("classification", EMNIST, BY_COLUMN, {"tags": ["math"]}, "stragglers.tags: only a file's column and tff's"),
    ],
)
def test_what_does_not_go_together_is_told_in_a_sentence(kind, data, partition, stragglers, sentence):
    with pytest.raises(ValidationError) as error:
        _task(kind, data, partition, stragglers)
    (details,) = error.value.errors()
    assert details["msg"].startswith(f"Value error, {sentence}")


@pytest.mark.parametrize(
    ("model", "dataset", "sentence"),
    [
        ("shakespeare_lstm", "shakespeare", None),
        ("sent140_lstm", "sent140", None),
        (
            "shakespeare_lstm",
            "sent140",
            "model.name: shakespeare_lstm reads characters; take data of source text, or of source leaf, dataset "
            "shakespeare, or another model",
        ),
        (
            "sent140_lstm",
            "femnist",
            "model.name: sent140_lstm reads words; take data of source leaf, dataset sent140, or another model",
        ),
    ],
)
def test_which_models_read_leaf_s_texts(model, dataset, sentence):
    data = LEAF | {"dataset": dataset}
    block = {"kind": "classification", "data": data, "partition": BY_COLUMN, "model": {"name": model}}
    if sentence is None:
        assert TypeAdapter(Task).validate_python(block).model.name == model
        return
    with pytest.raises(ValidationError) as error:
        TypeAdapter(Task).validate_python(block)
    (details,) = error.value.errors()
    assert details["msg"] == f"Value error, {sentence}"
