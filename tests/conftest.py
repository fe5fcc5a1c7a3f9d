"""A tiny experiment for every test that trains: blobs of four classes on a dozen unequal clients."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

CLIENT_SIZES = [1, 3, 4, 5, 7, 10, 12, 13, 20, 25, 31, 40]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that share a Slurm run on one worker, so that there is one. The longest come first, so that no worker
    is left with them alone."""
    folder = Path(__file__).parent
    order = ["test_readme.py", "slurm", "workflow", "laws", "ranks"]
    places: dict[pytest.Item, int] = {}
    for item in items:
        name = item.path.relative_to(folder).parts[0]
        if name == "slurm":
            item.add_marker(pytest.mark.xdist_group(name))
        places[item] = order.index(name) if name in order else len(order)
    items.sort(key=places.__getitem__)


def tiny_settings() -> dict[str, Any]:
    """Four algorithms, two scenarios, two trials; a run is 60 client updates of a few steps each."""
    slow = {"distribution": "lognormal", "mu": 2.0, "sigma": 0.5}
    quick = {"distribution": "lognormal", "mu": 0.0, "sigma": 0.5}
    return {
        "trials": 2,
        "task": {
            "kind": "classification",
            "data": {
                "source": "file",
                "path": "blobs.npz",
                "features": "x_{split}",
                "label": "y_{split}",
                "client": "client_{split}",
            },
            "partition": {"kind": "by_column"},
            "stragglers": {"classes": [0], "clients": 3},
            "model": {"name": "mlp", "hidden": [6]},
        },
        "client": {"batch_size": 5, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.1}},
        "server_optimizer": {"name": "sgd", "rate": 1.0},
        "algorithms": {
            "fedavg": {"scheduler": "synchronous", "cohort": 4},
            "over": {"scheduler": "synchronous", "cohort": 4, "over_selection": 6},
            "prox": {
                "scheduler": "synchronous",
                "cohort": 4,
                "client": {"proximal": 0.5, "optimizer": {"name": "sgd", "rate": 0.1, "momentum": 0.9}},
                "server_optimizer": {"name": "adam", "rate": 0.01},
            },
            "fedbuff": {"scheduler": "buffered", "buffer_size": 3, "concurrency": 8},
        },
        "scenarios": {
            "alike": {"communication": quick, "per_example": quick, "overhead": quick},
            "domain": {
                "communication": quick,
                "per_example": quick,
                "overhead": quick,
                "stragglers": {"per_example": slow},
            },
        },
        "budget": {"client_updates": 60},
        "evaluation": {"every": 20},
    }


def write_blobs(folder: Path) -> None:
    """``blobs.npz``: 171 training examples of 12 clients, 40 held-out ones; each class at a corner of a square."""
    generator = np.random.default_rng(7)

    def blobs(examples: int) -> tuple[np.ndarray, np.ndarray]:
        labels = generator.integers(4, size=examples)
        corners = np.array([[0, 0], [0, 2], [2, 0], [2, 2]])[labels]
        return (corners + generator.normal(size=(examples, 2))).astype(np.float32), labels

    x_train, y_train = blobs(sum(CLIENT_SIZES))
    x_test, y_test = blobs(40)
    np.savez(
        folder / "blobs.npz",
        x_train=x_train,
        y_train=y_train,
        client_train=np.repeat(np.arange(len(CLIENT_SIZES)), CLIENT_SIZES),
        x_test=x_test,
        y_test=y_test,
        client_test=np.zeros(40, np.int64),
    )


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Path]:
    """``tiny(change)`` writes the data and the experiment, after ``change(settings)``, and returns its file."""

    def write(change: Callable[[dict[str, Any]], None] = lambda settings: None) -> Path:
        settings = tiny_settings()
        change(settings)
        write_blobs(tmp_path)
        file = tmp_path / "tiny.yaml"
        file.write_text(yaml.safe_dump(settings, sort_keys=False))
        return file

    return write
