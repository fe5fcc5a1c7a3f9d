"""From labels and counts to accuracies, by hand."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.clients.objective import Objective
from fedhpc.clients.work import ShardCounts
from fedhpc.data.federated import FederatedData
from fedhpc.federation.metrics import HeldOut
from fedhpc.federation.recorder import Metrics


def data(labels: object, classes: int, stragglers: list[int] | None = None, **more: object) -> FederatedData:
    """Only what an evaluation is counted by."""
    held = np.array(labels, np.int64)
    return FederatedData(
        features=np.zeros((1, 1), np.float32),
        labels=held[:1],
        offsets=np.array([0, 1]),
        stragglers=np.zeros(1, bool),
        straggler_classes=np.array(stragglers or [], np.int64),
        test_features=np.zeros((len(held), 1), np.float32),
        test_labels=held,
        classes=classes,
        client_names=("0",),
        class_names=tuple(map(str, range(classes))),
        **more,  # type: ignore[arg-type]
    )


def test_balanced_accuracy_is_the_mean_over_the_classes_that_are_there() -> None:
    # Classes 0 (four), 1 (two) and 3 (one); 2 is never held out.
    held = HeldOut.of(data([0, 0, 0, 0, 1, 1, 3], 4, [1]), Objective(balanced=True, top5=True))
    shards = [ShardCounts(3, 1, 2.0, 5, (2, 1, 0, 0)), ShardCounts(2, 0, 1.5, 2, (1, 0, 0, 1))]
    assert held.metrics(shards) == Metrics(5 / 7, 1 / 2, 3.5 / 7, 1.0, pytest.approx((3 / 4 + 1 / 2 + 1) / 3))


def test_what_a_task_does_not_ask_for_is_not_measured() -> None:
    held = HeldOut.of(data([0, 1, 1, 0], 2), Objective())
    assert held.metrics([ShardCounts(3, 0, 2.0)]) == Metrics(0.75, None, 0.5)


def test_next_words_count_words_and_lose_on_tokens() -> None:
    # Class 3 is a mark: of five labelled tokens three are words, of them two in the tagged sentence.
    sentences = [[0, 1, 3], [2, 3, -1], [-1, -1, -1]]
    marks = {"unscored": np.array([3]), "test_tagged": np.array([True, False, False])}
    held = HeldOut.of(data(sentences, 4, **marks), Objective("next_words"))
    assert (held.losses, held.scored, held.of_stragglers) == (5, 3, 2)
    found = held.metrics([ShardCounts(2, 1, 5 * math.log(7))])
    assert found == Metrics(2 / 3, 1 / 2, pytest.approx(math.log(7)), perplexity=pytest.approx(7))
    assert held.metrics([ShardCounts(0, 0, 5 * 800.0)]).perplexity == math.inf


def test_segmentation_loses_on_examples_and_counts_voxels() -> None:
    held = HeldOut.of(data([[[0, 1], [1, -1]], [[0, 0], [1, 1]]], 2), Objective("segmentation"))
    assert (held.losses, held.scored) == (2, 7)
    assert held.metrics([ShardCounts(6, 0, 0.5)]) == Metrics(6 / 7, None, 0.25, dice=0.75)


@given(st.data())
def test_counts_do_not_depend_on_where_the_shards_end(chance: st.DataObject) -> None:
    counts = st.integers(0, 9)
    # Sums of eighths are exact, so that nothing but the counting is told apart.
    one = st.builds(
        lambda correct, of_straggler, loss, top5, first, second: ShardCounts(
            correct, of_straggler, loss / 8, top5, (first, second)
        ),
        *[counts] * 6,
    )
    examples = chance.draw(st.lists(one, min_size=1, max_size=12))
    ends = chance.draw(st.lists(st.integers(1, len(examples)), max_size=4))
    held = HeldOut(Objective(top5=True, balanced=True), len(examples), 9 * len(examples), 7, np.array([100, 120]))

    def together(part: list[ShardCounts]) -> ShardCounts:
        return ShardCounts(
            sum(one.correct for one in part),
            sum(one.straggler_correct for one in part),
            sum(one.loss for one in part),
            sum(one.top5 for one in part),
            tuple(np.sum([one.of_classes for one in part], axis=0).tolist()),
        )

    bounds = sorted({0, len(examples), *ends})
    shards = [together(examples[first:last]) for first, last in pairwise(bounds)]
    assert held.metrics(shards) == held.metrics(examples)
