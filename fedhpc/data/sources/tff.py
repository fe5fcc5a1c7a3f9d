"""A data set of TensorFlow Federated, from its files to examples."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import TFF
from fedhpc.data.sources.naming import mistake
from fedhpc.data.sources.tff_hdf5 import open_hdf5_split
from fedhpc.data.sources.tff_pictures import CIFAR100, EMNIST
from fedhpc.data.sources.tff_reading import NotAsItShouldBe, Reading
from fedhpc.data.sources.tff_split import Split, evenly_spread, first_of_each, of_client
from fedhpc.data.sources.tff_sqlite import open_sqlite_split
from fedhpc.data.sources.tff_stackoverflow import StackOverflow
from fedhpc.data.sources.word_counts import most_frequent_words
from fedhpc.mistakes import ExperimentError


def load_tff(settings: TFF, tags: Sequence[str]) -> Examples:
    """Training examples client by client, in sorted order of the clients' names and each one's in the file's order,
    then the held-out ones alike, which have no clients. Of a client without examples nothing is left. ``tags``: those
    of the straggler clients.

    Beside the result, no more is held in memory than the numbers of the rows and what one client has. Raises
    ExperimentError where the files are not as the settings say, or no training example bears one of the tags.
    """
    reading = _reading(settings, tags)
    with _opened(settings, "train", reading) as train, _opened(settings, "test", reading) as test:
        most, wanted = settings.most_examples, settings.held_out_examples
        kept = train.counts if most is None else np.minimum(train.counts, most)
        training, there = int(kept.sum()), int(test.counts.sum())
        if not training:
            raise mistake(settings.train, "train", "no client of the file has an example")
        total = training + (there if wanted is None else min(there, wanted))
        try:
            features = np.empty((total, *reading.example), np.float32)
            labels = np.empty((total, *reading.places), np.int64)
        except (MemoryError, ValueError):  # numpy has a word of its own for what no machine could hold
            told = f"{total:,} examples do not fit into memory; keep fewer, by most_examples and held_out_examples"
            raise mistake(settings.train, "train", told) from None
        tagged = np.zeros(total, bool) if tags else None
        chosen = ((train, first_of_each(train.counts, kept), 0), (test, evenly_spread(there, wanted), training))
        for split, rows, first in chosen:
            for part in split.parts(reading.fields, rows):
                place = slice(first + part.places.start, first + part.places.stop)
                try:
                    read = reading.read(part.columns)
                except NotAsItShouldBe as error:
                    raise of_client(split, part.client, str(error)) from None
                features[place], labels[place] = read.features, read.labels
                if tagged is not None:
                    tagged[place] = read.tagged
            if split is train and (missing := reading.missing_tags()):
                told = f"task.stragglers.tags: no training example bears {', '.join(missing)}"
                raise ExperimentError(settings.train, [told])
        names = tuple(name for name, examples in zip(train.clients, kept.tolist(), strict=True) if examples)
    clients = np.full(total, -1)
    clients[:training] = np.repeat(np.arange(len(names)), kept[kept > 0])
    held_out = np.arange(total) >= training
    class_names = reading.class_names(labels)
    words = class_names if settings.dataset == "stackoverflow" else ()
    return Examples(features, labels, held_out, class_names, clients, names, None, reading.unscored, tagged, words)


def _reading(settings: TFF, tags: Sequence[str]) -> Reading:
    match settings.dataset:
        case "emnist":
            return EMNIST()
        case "cifar100":
            return CIFAR100(tags)
        case "stackoverflow":
            assert settings.vocabulary is not None  # refused with the settings
            words = most_frequent_words(settings.vocabulary, "vocabulary", settings.words)
            return StackOverflow(words, settings.sentence, tags)


def _opened(settings: TFF, split: str, reading: Reading) -> AbstractContextManager[Split]:
    if settings.test is None:
        return open_sqlite_split(settings.train, "train", split)
    path = settings.train if split == "train" else settings.test
    return open_hdf5_split(path, split, reading.fields[0].name)
