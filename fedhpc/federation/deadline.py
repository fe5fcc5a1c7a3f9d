"""What a client does by a round's deadline (FedCore: Guo et al. 2024, sections 4.2, 4.4 and 6.1)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.settings import ClientSettings


@dataclass(frozen=True, slots=True)
class DeadlineWork:
    """``steps`` mini-batches, which take the time of ``processed`` examples. ``coreset`` and ``whole_epochs`` are as in
    ``Member``."""

    steps: int
    processed: int
    coreset: int = 0
    whole_epochs: int = 0


def deadline_of(
    epochs: int, examples: NDArray[np.int64], capabilities: NDArray[np.float64], straggler_percent: float
) -> float:
    """Virtual seconds: the (100 - straggler_percent)th percentile over all clients of the time of their full work.

    ``examples``, ``capabilities``: [clients].
    """
    return float(np.percentile(epochs * examples / capabilities, 100 - straggler_percent))


def work_by_deadline(
    client: ClientSettings, examples: int, capability: float, deadline: float, *, convex: bool
) -> DeadlineWork | None:
    """The work of a client that holds so many ``examples`` and processes ``capability`` of them in a virtual second, by
    ``deadline`` seconds after its start; None where it takes no part.

    Whoever can do all its epochs does. A coreset takes what time is left after an epoch on everything. Where that is
    not enough for an epoch and one example more (section 4.4), all epochs are on the coreset: a ``convex`` model's is
    known before training, another's is found by a forward pass over everything and the gradient of the last layer's
    input, which takes the time of a third of the examples, rounded up (a training step's backward pass takes about
    twice as long as its forward pass).
    """
    assert client.epochs is not None
    epochs = client.epochs

    def fits(processed: int) -> bool:
        return processed / capability <= deadline

    def most(before: int, each: int) -> int:
        """How often ``each`` examples fit after ``before``."""
        count = int(max(0.0, (deadline * capability - before) / each)) + 1
        while count and not fits(before + count * each):
            count -= 1
        return count

    if fits(epochs * examples):
        return DeadlineWork(client.local_steps(examples), epochs * examples)
    if client.within_deadline == "drop":
        return None
    if client.within_deadline == "fewer_epochs":
        passes = most(0, examples)
        return DeadlineWork(passes * client.batches(examples), passes * examples) if passes else None
    if epochs > 1 and (size := most(examples, epochs - 1)):
        steps = client.batches(examples) + (epochs - 1) * client.batches(size)
        return DeadlineWork(steps, examples + (epochs - 1) * size, size, 1)
    before = 0 if convex else -(-examples // 3)
    size = most(before, epochs)
    return DeadlineWork(epochs * client.batches(size), before + epochs * size, size, 0) if size else None
