"""A tiny experiment with batch normalisation: FedCompass's ResNet-18 on pictures of 9 by 9, six unequal clients."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedhpc.clients.steps.step_choice import StepChoice
from tests.conftest import tiny_settings

PLAIN = StepChoice(form="plain")
SIZES = [1, 2, 3, 4, 5, 6]
_MOMENTUM = {"name": "sgd", "rate": 0.7, "momentum": 0.5}

ALGORITHMS: dict[str, Any] = {
    "fedavgm": {"scheduler": "synchronous", "cohort": 3, "server_optimizer": _MOMENTUM},
    # Weights of 1 and less, by staleness: their sum is not 1, and above it now and then.
    "fedbuff_sum": {
        "scheduler": "buffered",
        "buffer_size": 2,
        "concurrency": 4,
        "normalization": "sum",
        "server_optimizer": _MOMENTUM,
        "ema": {"decay": 0.5},
    },
    "fedasync": {"scheduler": "asynchronous", "concurrency": 3, "mixing": 0.6, "staleness": {"kind": "polynomial"}},
    # Stale updates are alone, and what they weigh depends on what they are.
    "relay": {
        "scheduler": "stale_synchronous",
        "cohort": 2,
        "over_selection": 3,
        "stale": {"weighting": "relay"},
        "server_optimizer": _MOMENTUM,
    },
}


def picture_experiment(folder: Path, updates: int = 6) -> Path:
    """Writes the data and the experiment of ``ALGORITHMS``, each of so many client updates, and returns its file."""
    draw = np.random.default_rng(5)
    arrays = {}
    for split, examples, client in (("train", sum(SIZES), np.repeat(np.arange(6), SIZES)), ("test", 8, np.zeros(8))):
        labels = draw.integers(4, size=examples)
        arrays[f"x_{split}"] = (labels[:, None, None, None] + draw.normal(size=(examples, 9, 9, 3))).astype(np.float32)
        arrays |= {f"y_{split}": labels, f"client_{split}": client.astype(np.int64)}
    np.savez(folder / "blobs.npz", **arrays)
    settings = tiny_settings()
    settings["task"].update(model={"name": "cifar10_resnet18"}, stragglers={"classes": [0], "clients": 5})
    settings["client"] = {
        "batch_size": 4,
        "steps": 2,
        "proximal": 0.1,
        "optimizer": {"name": "sgd", "rate": 0.05, "momentum": 0.5, "weight_decay": 0.01},
    }
    settings |= {"algorithms": ALGORITHMS, "budget": {"client_updates": updates}, "evaluation": {"every": updates // 2}}
    file = folder / "pictures.yaml"
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    return file
