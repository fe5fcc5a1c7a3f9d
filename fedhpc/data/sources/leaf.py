"""A data set of LEAF (Caldas et al. 2018), from its files to examples."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.examples import Examples
from fedhpc.data.held_out import share_of_all, share_of_each
from fedhpc.data.public_settings import LEAF
from fedhpc.data.read_rows import ReadRows
from fedhpc.data.sources import leaf_celeba, leaf_femnist, leaf_sent140, leaf_shakespeare
from fedhpc.data.sources.leaf_json import User, read_users
from fedhpc.data.sources.leaf_labels import numbered_labels
from fedhpc.data.sources.naming import mistake

_Read = Callable[[User, str], tuple[Any, list[int]]]
"""From a user, of a file of ``task.data.<key>``, to the features, as they are until all users have been read, and the
labels."""


class _Own(NamedTuple):
    """What a user has, read."""

    name: str
    features: Any
    labels: list[int]


def load_leaf(settings: LEAF, keeps_clients: bool, generator: np.random.Generator) -> Examples:
    """Training examples user by user, in sorted order of their names and each one's in the file's order; then those of
    ``test``, alike. See ``load`` for the other arguments.

    A user with fewer than ``least_examples`` in ``train`` is left out, there and in ``test``. Raises ExperimentError
    where the files are not as the settings say.
    """
    tweets = leaf_sent140.Tweets(settings.sentence)
    read, class_names = _reading(settings, tweets)
    found: dict[str, _Own | None] = {}
    for user in read_users(settings.train, "train"):
        is_large = len(user.x) >= settings.least_examples
        found[user.name] = _Own(user.name, *read(user, "train")) if is_large else None
    owners = sorted(own for own in found.values() if own)
    if not owners:
        told = f"no user has {settings.least_examples} example{'s'[: settings.least_examples > 1]}"
        raise mistake(settings.train, "least_examples", f"{told}; lower it")
    names = tuple(own.name for own in owners)
    clients = np.repeat(np.arange(len(owners)), [len(own.labels) for own in owners])
    if settings.test is not None:
        tested = (user for user in read_users(settings.test, "test") if found.get(user.name, ()) is not None)
        owners += sorted(_Own(user.name, *read(user, "test")) for user in tested)
        total = sum(len(own.labels) for own in owners)
        held_out = np.arange(total) >= len(clients)
        clients = np.concatenate([clients, np.full(total - len(clients), -1)])
    else:
        assert settings.held_out is not None  # refused with the settings
        held_out = (
            share_of_each(settings.held_out, clients, generator)
            if keeps_clients
            else share_of_all(settings.held_out, len(clients), generator)
        )
    found.clear()
    labels = np.array([label for own in owners for label in own.labels], np.int64)
    blocks = [own.features for own in owners]
    owners.clear()
    words: tuple[str, ...] = ()
    features: NDArray[np.float32] | ReadRows
    if settings.dataset == "celeba":
        features = leaf_celeba.pictures(list(chain(*blocks)), settings.side)
    elif settings.dataset == "sent140":
        features, words = tweets.numbered(_joined(blocks), ~held_out, settings.words)
    else:
        features = _joined(blocks)
    return Examples(features, labels, held_out, class_names, clients, names, words=words)


def _reading(settings: LEAF, tweets: leaf_sent140.Tweets) -> tuple[_Read, tuple[str, ...]]:
    """How a user is read, and the classes' names."""
    match settings.dataset:
        case "femnist":
            return leaf_femnist.read_femnist, leaf_femnist.CLASS_NAMES
        case "shakespeare":
            return leaf_shakespeare.read_shakespeare, leaf_shakespeare.CLASS_NAMES
        case "celeba":
            assert settings.images is not None  # refused with the settings
            named = partial(leaf_celeba.named_pictures, images=settings.images)
            return _with_labels(named, leaf_celeba.CLASS_NAMES), leaf_celeba.CLASS_NAMES
        case "sent140":
            return _with_labels(tweets.read, leaf_sent140.CLASS_NAMES), leaf_sent140.CLASS_NAMES


def _with_labels(read: Callable[[User, str], Any], class_names: tuple[str, ...]) -> _Read:
    return lambda user, key: (read(user, key), numbered_labels(user, key, len(class_names)))


def _joined(blocks: list[NDArray[Any]]) -> NDArray[Any]:
    """The users' arrays one after another. They are given up one by one, so that there are never two of all."""
    joined = np.empty((sum(map(len, blocks)), *blocks[0].shape[1:]), blocks[0].dtype)
    start = 0
    for number, block in enumerate(blocks):
        joined[start : start + len(block)] = block
        start += len(block)
        blocks[number] = np.empty(0)
        del block
    return joined
