"""Whether data that are prepared fit their task, whatever its model: what neither the settings nor the source alone can
tell (law 6)."""

from collections.abc import Iterator

import numpy as np

from fedhpc.data.federated import FederatedData
from fedhpc.task import Classification, Learning, NextWords


def held_mistakes(task: Learning, data: FederatedData) -> list[str]:
    """Sentences that begin with the key; none where the data fit."""
    return list(_mistakes(task, data))


def _mistakes(task: Learning, data: FederatedData) -> Iterator[str]:
    places = data.labels.shape[1:]
    if isinstance(task, Classification):
        if places:
            yield (
                f"task.kind: classification takes one label an example, and the data's have {_told(places)}; take "
                f"{'next_words' if len(places) == 1 else 'segmentation'}"
            )
            return
        if task.pictures is not None:
            yield from _of_pictures(task, data.shape)
        if "top5_accuracy" in task.metrics and data.classes <= 5:
            yield f"task.metrics: top5_accuracy of {data.classes} classes is always 1; leave it out"
        return
    if not places or data.shape[: len(places)] != places:
        sentences = isinstance(task, NextWords)
        yield (
            f"task.kind: {task.kind} takes a label for each {'token' if sentences else 'voxel'}; the data's examples "
            f"are of shape {list(data.shape)}, with {_told(places)}; take another kind or other data"
        )
    elif not _any_scored(data):
        yield "task.data: no held-out example has a label that accuracy counts; give others"


def _of_pictures(task: Classification, shape: tuple[int, ...]) -> Iterator[str]:
    assert task.pictures is not None
    if len(shape) not in (2, 3):
        yield (
            "task.pictures: the data's examples are no pictures, [height, width] or [height, width, channels], but of "
            f"shape {list(shape)}; leave it out"
        )
    elif task.pictures.crop is not None and task.pictures.crop > min(shape[:2]):
        yield f"task.pictures.crop: {task.pictures.crop} exceeds the pictures' {shape[0]} by {shape[1]}; lower it"
    elif task.pictures.mean is not None and len(task.pictures.mean) not in (1, channels := (*shape, 1)[2]):
        yield f"task.pictures.mean: has {len(task.pictures.mean)} numbers for {channels} channels; give 1 or one each"


def _told(places: tuple[int, ...]) -> str:
    return f"labels of shape {list(places)} each" if places else "one label each"


def _any_scored(data: FederatedData) -> bool:
    # One example after another: the first nearly always says it.
    return any(((labels >= 0) & ~np.isin(labels, data.unscored)).any() for labels in data.test_labels)
