from dataclasses import replace
from typing import Any

import numpy as np

from fedhpc.data.description import chosen, description
from fedhpc.data.federated import FederatedData
from fedhpc.task import Classification, NextWords, Segmentation

BLOCK: dict[str, Any] = {"data": {"source": "digits"}, "partition": {"kind": "iid", "clients": 4}}
POSTS = {"source": "tff", "dataset": "stackoverflow", "train": "a.h5", "test": "b.h5", "vocabulary": "words"}
SCANS = {"source": "flamby", "dataset": "ixi", "folder": "ixi"}


def held(labels: Any, sizes: list[int], classes: tuple[str, ...], test_labels: Any, **others: Any) -> FederatedData:
    labels, test_labels = np.array(labels, np.int64), np.array(test_labels, np.int64)
    told: dict[str, Any] = {
        "features": np.zeros((len(labels), 2, 3), np.float32),
        "labels": labels,
        "offsets": np.concatenate([[0], np.cumsum(sizes)]),
        "stragglers": np.zeros(len(sizes), bool),
        "straggler_classes": np.array([], np.int64),
        "test_features": np.zeros((len(test_labels), 2, 3), np.float32),
        "test_labels": test_labels,
        "classes": len(classes),
        "client_names": tuple(map(str, range(len(sizes)))),
        "class_names": classes,
    }
    return FederatedData(**{**told, **others})


def test_classes_and_stragglers() -> None:
    task = Classification.model_validate(
        {
            "kind": "classification",
            **BLOCK,
            "model": {"name": "logistic"},
            "stragglers": {"classes": ["b", "c"], "clients": 1},
        }
    )
    # Five clients of 4, 3, 2, 1 and 0 examples: the first is the straggler client, and has all of b.
    labels = [1, 1, 1, 0, 0, 0, 0, 3, 3, 0]
    data = held(
        labels,
        [4, 3, 2, 1, 0],
        ("a", "b", "c", "d"),
        [0, 1, 2, 2, 3],
        stragglers=np.array([True, False, False, False, False]),
        straggler_classes=np.array([1, 2]),
        taken_away=5,
    )
    assert dict(description(task, data)) == {
        "clients": "5",
        "training examples": "10",
        "held out": "5 examples, 25 % of all; the same for every trial",
        "an example": "2 x 3 of float32",
        "examples a client": "least 0, quartiles 1, 2 (the median) and 3, most 4; 1 has none",
        "labels": "4, of which 3 occur",
        "examples of each": "a: 5 (50 %), b: 3 (30 %), d: 2 (20 %)",
        "labels a client": "least 0, quartiles 1, 1 (the median) and 1, most 2; 1 has none",
        "straggler clients": "1 (20 % of the clients) with 4 training examples (40 %); the others have 6",
        "they are": "0",
        "straggler classes": "b, c: 60 % of the held-out examples",
        "taken away": "5 training examples of these classes, from the clients who are no stragglers",
    }
    assert task.stragglers is not None
    told = "1 of 5 clients; 5 training examples of b, c are taken away from the others"
    assert chosen(data, task.stragglers) == told
    everybody = replace(data, stragglers=np.ones(5, bool), taken_away=0)
    assert chosen(everybody, task.stragglers).endswith("; nobody is left to compare them with")


def test_stragglers_by_their_tags() -> None:
    data = held(
        [0] * 30, [1] * 30, ("a", "b"), [0, 1], stragglers=np.arange(30) < 22, test_tagged=np.array([True, False])
    )
    file = {"source": "file", "path": "a.csv", "features": "x", "label": "y", "tag": "site", "held_out": 0.5}
    block = {**BLOCK, "data": file, "model": {"name": "logistic"}, "stragglers": {"tags": ["north", "east"]}}
    task = Classification.model_validate({"kind": "classification", **block})
    told = dict(description(task, data))
    assert told["they are"] == ", ".join(map(str, range(20))) + " and 2 more"
    assert told["straggler tags"] == "north, east: 50 % of the held-out examples"
    assert "taken away" not in told
    assert task.stragglers is not None
    assert chosen(data, task.stragglers) == "22 of 30 clients, who have north or east"


def test_of_many_labels_the_most_and_the_least_frequent_are_named() -> None:
    task = Classification.model_validate({"kind": "classification", **BLOCK, "model": {"name": "logistic"}})
    labels = np.repeat(np.arange(8), [1, 2, 3, 4, 5, 6, 7, 12])
    told = dict(description(task, held(labels, [40], (" ", *"bcdefg", "\n"), [0])))
    assert told["labels"] == "8"
    assert told["most examples"] == "'\\n': 12 (30 %), g: 7 (17.5 %), f: 6 (15 %)"
    assert told["least examples"] == "' ': 1 (2.5 %), b: 2 (5 %), c: 3 (7.5 %)"


def test_next_words_are_told_by_tokens() -> None:
    task = NextWords.model_validate(
        {"kind": "next_words", "data": POSTS, "partition": BLOCK["partition"], "model": {"name": "stackoverflow_lstm"}}
    )
    data = held([[0, 1, -1], [1, 1, 2], [1, -1, -1]], [2, 1], ("pad", "the", "a"), [[1, 1, 1]])
    told = dict(description(task, data))
    assert told["tokens an example"] == "3"
    assert told["words"] == "3"
    assert told["tokens of each"] == "the: 4 (66.7 %), pad: 1 (16.7 %), a: 1 (16.7 %)"
    assert "labels a client" not in told


def test_segmentation_is_told_by_voxels() -> None:
    task = Segmentation.model_validate(
        {"kind": "segmentation", "data": SCANS, "partition": BLOCK["partition"], "model": {"name": "unet3d"}}
    )
    told = dict(description(task, held([[[0, 1], [0, 0]]], [1], ("other", "brain"), [[[0, 0], [1, 1]]])))
    assert told["voxels an example"] == "2 x 2"
    assert told["voxels of each"] == "other: 3 (75 %), brain: 1 (25 %)"


def test_straggler_tags_are_told_by_their_share() -> None:
    partition, model = BLOCK["partition"], {"name": "stackoverflow_lstm"}
    words = {"kind": "next_words", "data": POSTS, "partition": partition, "model": model, "stragglers": {"tags": ["c"]}}
    tagged = np.array([True, False, False, False])
    data = held([[0], [1]], [1, 1], ("a", "b"), [[0]] * 4, test_tagged=tagged)
    assert (
        dict(description(NextWords.model_validate(words), data))["straggler tags"] == "c: 25 % of the held-out examples"
    )
