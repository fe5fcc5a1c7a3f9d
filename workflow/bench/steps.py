"""The ways to compute a step, measured one by one on one rank: ``python -m workflow.bench.steps FILE EXAMPLES``.

What a calibration would find for a model of each size, in every precision that the device has: on a GPU captured
stacks against single clients, on a CPU the memory formats.
"""

import json
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.calibration import calibrate
from fedhpc.clients.steps.step_choice import StepChoice, StepWishes
from fedhpc.data.federated import FederatedData
from fedhpc.models.settings import EMNISTCNN, CIFAR100ResNet18, Model

_UPDATES = 100_000
_COHORT = 50
_BATCH = 20
_MODELS: tuple[tuple[Model, tuple[int, ...], int], ...] = (
    (EMNISTCNN(name="emnist_cnn"), (28, 28), 62),
    (CIFAR100ResNet18(name="cifar100_resnet18"), (24, 24, 3), 100),
)
"""With the shape of an image and the number of classes (Hard et al., appendix A: crops of 24 by 24)."""


def figures(examples: int, precision: Literal["fp32", "tf32", "bf16"]) -> dict[str, Any]:
    """By model and way: client updates a second of clients with so many examples, one epoch each in batches of 20, and
    the hours that 100,000 of them would take one rank."""
    work = {"batch_size": _BATCH, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.02}, "precision": precision}
    client = ClientSettings.model_validate(work)
    found: dict[str, Any] = {}
    for model, shape, classes in _MODELS:
        measured = calibrate(model, client, random_data(shape, classes, examples), _COHORT, StepWishes())
        rates = {_name(choice): 1 / (seconds * client.local_steps(examples)) for choice, seconds in measured}
        found[model.name] = {
            way: {"client_updates_per_s": rate, "hours_of_100000": _UPDATES / rate / 3600}
            for way, rate in rates.items()
        }
    return found


def _name(choice: StepChoice) -> str:
    words: list[str] = [choice.form]
    if choice.form == "stacked":
        words += [choice.convolution, f"of_{choice.clients}"]
    return "_".join(words + ["graph"] * choice.graph)


def random_data(shape: tuple[int, ...], classes: int, examples: int) -> FederatedData:
    """One client with so many examples of noise, and one that is held out."""
    draw = np.random.default_rng(0)
    return FederatedData(
        features=draw.random((examples, *shape), np.float32),
        labels=draw.integers(0, classes, examples),
        offsets=np.array([0, examples]),
        stragglers=np.zeros(1, bool),
        straggler_classes=np.empty(0, np.int64),
        test_features=draw.random((1, *shape), np.float32),
        test_labels=np.zeros(1, np.int64),
        classes=classes,
        client_names=("0",),
        class_names=tuple(map(str, range(classes))),
    )


def main(file: Path, examples: int) -> None:
    import torch

    precisions: list[Literal["fp32", "tf32", "bf16"]] = ["fp32", "bf16"]
    if torch.cuda.is_available():
        precisions.insert(1, "tf32")
    file.write_text(json.dumps({precision: figures(examples, precision) for precision in precisions}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
