"""A tiny next-word experiment: eight words and four marks, sentences of five tokens, six clients of whom two write
about C++. The data are prepared here, from examples as a loader gives them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fedhpc.data.examples import Examples
from fedhpc.data.preparation import prepare
from fedhpc.experiment import load_experiment
from fedhpc.task import Learning
from tests.conftest import tiny_settings

PADDING, BEGINNING, END, UNKNOWN, WORDS = 0, 9, 10, 11, 8
CLASSES = 12
SIZES = [2, 1, 4, 3, 5, 2]
TAGGED_CLIENTS = [1, 4]
HELD_OUT = 7

ALGORITHMS: dict[str, Any] = {
    "fedavg": {"scheduler": "synchronous", "cohort": 3},
    # Distilled word by word.
    "fare_dust": {"scheduler": "fare_dust", "cohort": 2, "over_selection": 3, "histories": 2}
    | {"client": {"distillation": 0.3}},
    "fedbuff": {"scheduler": "buffered", "buffer_size": 2, "concurrency": 4},
}


def examples() -> Examples:
    """Each word is followed by the next higher one; sentences are of one to five tokens, padded, and their last label
    is the end or, in some, an unknown word."""
    draw = np.random.default_rng(11)
    total = sum(SIZES) + HELD_OUT
    features, labels = np.zeros((total, 5), np.float32), np.full((total, 5), -1)
    for sentence in range(total):
        length, first = int(draw.integers(1, 6)), int(draw.integers(WORDS))
        words = [1 + (first + place) % WORDS for place in range(length - 1)]
        features[sentence, :length] = [BEGINNING, *words]
        labels[sentence, :length] = [*words, END if sentence % 3 else UNKNOWN]
    clients = np.concatenate([np.repeat(np.arange(len(SIZES)), SIZES), np.full(HELD_OUT, -1)])
    held_out = clients < 0
    tagged = np.isin(clients, TAGGED_CLIENTS)
    tagged[-3:] = True
    return Examples(
        features,
        labels,
        held_out,
        ("<pad>", *(f"word{number}" for number in range(WORDS)), "<bos>", "<eos>", "<oov>"),
        clients,
        tuple(map(str, range(len(SIZES)))),
        unscored=(PADDING, BEGINNING, END, UNKNOWN),
        tagged=tagged,
    )


def sentence_experiment(
    folder: Path, results: list[Path], change: Callable[[dict[str, Any]], None] = lambda settings: None
) -> Path:
    """Writes the experiment and, for each folder of results, the prepared data. The files of the data are named, and
    hashed, but never read."""
    for name in ("train.h5", "test.h5", "words.json"):
        (folder / name).write_text(name)
    settings = tiny_settings()
    settings["task"] = {
        "kind": "next_words",
        "data": {
            "source": "tff",
            "dataset": "stackoverflow",
            "train": "train.h5",
            "test": "test.h5",
            "vocabulary": "words.json",
            "words": WORDS,
            "sentence": 5,
        },
        "partition": {"kind": "by_column"},
        "stragglers": {"tags": ["c++"]},
        "model": {"name": "stackoverflow_lstm"},
    }
    settings["client"] = {"batch_size": 2, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.5}}
    settings |= {"algorithms": ALGORITHMS, "budget": {"client_updates": 12}, "evaluation": {"every": 6}, "trials": 1}
    change(settings)
    file = folder / "sentences.yaml"
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    experiment = load_experiment(file)
    assert isinstance(experiment.task, Learning)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedhpc.data.preparation.load", lambda *_: examples())
        for result in results:
            prepare(experiment.task, experiment.seed, folder, result / "data")
    return file
