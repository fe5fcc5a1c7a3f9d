"""What clients are to learn from an example, and what an evaluation counts: a task, as those see it who compute it."""

from dataclasses import dataclass
from typing import Literal, Self

from fedhpc.task import Classification, Learning, Pictures

Kind = Literal["classification", "next_words", "segmentation"]

EVALUATION_SHARD = 4096
"""Held-out examples that are evaluated as one piece; fixed, so that sums do not depend on the number of ranks."""

_VOLUMES_A_SHARD = 16
"""Of volumes it takes fewer: each is as much work as a thousand pictures."""

_EVALUATION_BATCHES = {"cpu": 32, "cuda": 512}
"""Examples of a forward pass alone: on a CPU as many as leave a convolution's pictures in the cache."""

_VOLUMES_A_BATCH = 2
"""FLamby's batch; a U-Net's activations are some hundred times its volume."""


@dataclass(frozen=True)
class Objective:
    """``kind``: one label an example, one a token or one a voxel, with the task's loss. ``pictures``: how features are
    changed before they are used. ``top5`` and ``balanced``: whether an evaluation also counts the labels among the five
    highest scores, and the correct ones class by class."""

    kind: Kind = "classification"
    pictures: Pictures | None = None
    top5: bool = False
    balanced: bool = False

    @classmethod
    def of(cls, task: Learning) -> Self:
        """The task's."""
        if isinstance(task, Classification):
            measured = task.metrics
            return cls(task.kind, task.pictures, "top5_accuracy" in measured, "balanced_accuracy" in measured)
        return cls(task.kind)

    @property
    def shard(self) -> int:
        """Held-out examples that are evaluated as one piece."""
        return _VOLUMES_A_SHARD if self.kind == "segmentation" else EVALUATION_SHARD

    def evaluation_batch(self, device: str) -> int:
        """Examples of a forward pass alone on a device of this type."""
        return _VOLUMES_A_BATCH if self.kind == "segmentation" else _EVALUATION_BATCHES[device]

    def model_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """An example's shape as the model takes it, of ``shape`` in the data."""
        return shape if self.pictures is None else self.pictures.cropped(shape)


CLASSIFICATION = Objective()
"""Classes, of features as they lie in the data."""
