"""What coresets cost on one rank: ``python -m workflow.bench.coresets FILE EXAMPLES``.

Building them, of gradients with 128 numbers each, for several shares of the examples; of ten times as many examples,
which are dealt into blocks, with the memory that takes; and building's share of a straggler's whole update.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedhpc.clients.coreset import build_coreset, input_gradients
from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Member
from fedhpc.models.settings import EMNISTCNN, Logistic, Model
from workflow.bench.steps import random_data

_NUMBERS = 128
_CLASSES = 10
_SHARES = (0.05, 0.1, 0.5)
_TIMES_AS_MANY = 10
_EPOCHS, _BATCH = 10, 8
_MODELS: tuple[tuple[Model, tuple[int, ...], StepChoice], ...] = (
    (EMNISTCNN(name="emnist_cnn"), (28, 28), StepChoice(form="channels_last", clients=1)),
    (Logistic(name="logistic"), (60,), StepChoice(form="dense", clients=1)),
)
"""With the shape of an example, and how it is trained. A convex model's coreset is built in its first update alone."""


def figures(examples: int) -> dict[str, Any]:
    """By what was measured, for so many examples; updates are of clients with an eighth of them."""
    build_coreset(_gradients(_CLASSES), 2, np.random.default_rng(0))  # its library is loaded with the first
    gradients = _gradients(examples)
    found: dict[str, Any] = {
        f"{share:.0%}_of_{examples}".replace("%", "_percent"): {"build_s": _seconds(gradients, int(share * examples))}
        for share in _SHARES
    }
    many = _gradients(_TIMES_AS_MANY * examples)
    before = _peak()
    found[f"10_percent_of_{len(many)}"] = {
        "build_s": _seconds(many, len(many) // 10),
        "peak_bytes_more": _peak() - before,
    }
    for model, shape, choice in _MODELS:
        found[model.name] = _of_an_update(model, shape, choice, max(_CLASSES, examples // 8))
    return found


def _of_an_update(model: Model, shape: tuple[int, ...], choice: StepChoice, examples: int) -> dict[str, Any]:
    """A straggler's update with time for half of its epochs, one of them on everything."""
    size = (examples * _EPOCHS // 2 - examples) // (_EPOCHS - 1)
    work = {"batch_size": _BATCH, "epochs": _EPOCHS, "optimizer": {"name": "sgd", "rate": 0.01}}
    client = ClientSettings.model_validate({**work, "within_deadline": "coreset"})
    prepare_device(choice, client.precision)
    training = LocalTraining(model, client, random_data(shape, _CLASSES, examples), 0, 0, choice)
    versions = {0: training.initial_weights()}
    training.update(versions, [Member(0, 0, 0, 1, 1.0)], lambda: None)
    steps = client.batches(examples) + (_EPOCHS - 1) * client.batches(size)
    start = time.perf_counter()
    training.update(versions, [Member(0, 0, 1, steps, 1.0, coreset=size, whole_epochs=1)], lambda: None)
    whole = time.perf_counter() - start
    numbers = int(np.prod(shape)) if isinstance(model, Logistic) else _NUMBERS
    building = _seconds(torch.from_numpy(np.random.default_rng(0).random((examples, numbers), np.float32)), size)
    return {"update_s": whole, "build_s": building, "build_share": building / whole}


def _gradients(examples: int) -> torch.Tensor:
    """Such as a last layer of ten classes gives for scores that are right more often than not."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, _CLASSES, examples)
    scores = 2 * draw.standard_normal((examples, _CLASSES)).astype(np.float32)
    scores[np.arange(examples), labels] += 2
    weight = 0.1 * draw.standard_normal((_CLASSES, _NUMBERS)).astype(np.float32)
    return input_gradients(torch.from_numpy(scores), torch.from_numpy(labels), torch.from_numpy(weight))


def _seconds(features: torch.Tensor, size: int) -> float:
    start = time.perf_counter()
    build_coreset(features, size, np.random.default_rng(0))
    return time.perf_counter() - start


def _peak() -> int:
    """The most memory that this process ever had, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(figures(int(sys.argv[2]))))
