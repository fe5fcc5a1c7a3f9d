"""From shards' counts to accuracies: Hard et al., section 5.1."""

from collections.abc import Sequence

from fedhpc.clients.work import ShardCounts
from fedhpc.federation.recorder import Metrics


def metrics(shards: Sequence[ShardCounts], examples: int, straggler_examples: int | None) -> Metrics:
    """Total accuracy over all ``examples`` held-out examples, straggler accuracy over the ``straggler_examples`` of the
    straggler classes (None: the task has none), and the mean cross-entropy."""
    correct = sum(shard.correct for shard in shards)
    loss = sum(shard.loss for shard in shards)
    straggler_accuracy = None
    if straggler_examples is not None:
        straggler_accuracy = sum(shard.straggler_correct for shard in shards) / straggler_examples
    return Metrics(correct / examples, straggler_accuracy, loss / examples)
