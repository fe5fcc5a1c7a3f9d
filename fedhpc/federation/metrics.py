"""From shards' counts to accuracies: Hard et al. 2023, section 5.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.objective import Objective
from fedhpc.clients.work import ShardCounts
from fedhpc.data.federated import FederatedData
from fedhpc.federation.recorder import Metrics

_AT_ONCE = 1 << 16
"""Held-out examples that are looked through at a time."""


@dataclass(frozen=True)
class HeldOut:
    """What the counts of an evaluation are shares of. ``losses``: what the loss is a mean over, examples or labelled
    tokens. ``scored``: labels that accuracy counts, and ``of_stragglers`` those of the straggler classes or tags, None
    where there are none. ``of_classes``: the scored ones of each class, int64 [classes]."""

    objective: Objective
    losses: int
    scored: int
    of_stragglers: int | None
    of_classes: NDArray[np.int64]

    @classmethod
    def of(cls, data: FederatedData, objective: Objective) -> Self:
        """Those of the data."""
        labelled, of_stragglers, of_classes = 0, 0, np.zeros(data.classes, np.int64)
        for first in range(0, len(data.test_labels), _AT_ONCE):
            labels = data.test_labels[first : first + _AT_ONCE]
            known = labels >= 0
            scored = known & ~np.isin(labels, data.unscored)
            labelled += int(np.count_nonzero(known))
            of_classes += np.bincount(labels[scored], minlength=data.classes)
            if data.test_tagged is None:
                of_stragglers += int(np.count_nonzero(scored & np.isin(labels, data.straggler_classes)))
            else:
                of_stragglers += int(np.count_nonzero(scored[data.test_tagged[first : first + _AT_ONCE]]))
        losses = labelled if objective.kind == "next_words" else len(data.test_labels)
        return cls(objective, losses, int(of_classes.sum()), of_stragglers or None, of_classes)

    def metrics(self, shards: Sequence[ShardCounts]) -> Metrics:
        """An evaluation's, of the counts of all shards in their order."""
        objective, loss = self.objective, sum(shard.loss for shard in shards) / self.losses
        straggler_accuracy = top5 = balanced = perplexity = dice = None
        if self.of_stragglers is not None:
            straggler_accuracy = sum(shard.straggler_correct for shard in shards) / self.of_stragglers
        if objective.top5:
            top5 = sum(shard.top5 for shard in shards) / self.scored
        if objective.balanced:
            there = self.of_classes > 0
            correct = np.sum([shard.of_classes for shard in shards], axis=0)
            balanced = float(np.mean(correct[there] / self.of_classes[there]))
        if objective.kind == "next_words":
            with np.errstate(over="ignore"):
                perplexity = float(np.exp(loss))
        if objective.kind == "segmentation":
            # FLamby's metric for Fed-IXI is the soft score that its loss is made of; it only divides by a number that
            # is larger by some 1e-7 of a voxel.
            dice = 1 - loss
        total_accuracy = sum(shard.correct for shard in shards) / self.scored
        return Metrics(total_accuracy, straggler_accuracy, loss, top5, balanced, dice, perplexity)
