"""Two rounds on any data: an experiment is written, loaded, prepared and trained."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.federations import Federation, reference


def lives_two_rounds(folder: Path, data: dict[str, Any], partition: dict[str, Any] | None = None) -> None:
    """An experiment on ``data`` in ``folder`` trains logistic regression for two rounds of two clients, and is
    evaluated."""
    rate = {"name": "sgd", "rate": 0.1}
    settings = {
        "trials": 1,
        "task": {
            "kind": "classification",
            "data": data,
            "partition": partition or {"kind": "by_column"},
            "model": {"name": "logistic"},
        },
        "client": {"batch_size": 4, "epochs": 1, "optimizer": rate},
        "server_optimizer": {"name": "sgd", "rate": 1.0},
        "algorithms": {"fedavg": {"scheduler": "synchronous", "cohort": 2}},
        "scenarios": {"even": {"communication": {"distribution": "constant", "value": 1}}},
        "budget": {"server_updates": 2},
        "evaluation": {"every": 2},
    }
    file = folder / "two_rounds.yaml"
    file.write_text(yaml.safe_dump(settings))
    federation = Federation.of(file, "fedavg", "even")
    weights, evaluations, trained = reference(federation)
    assert trained == 4
    assert np.isfinite(weights).all()
    assert (weights != federation.training().initial_weights()).any()
    assert np.isfinite([counts.loss for counts in evaluations[2]]).all()
