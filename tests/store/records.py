"""Small records with numbers made by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fedhpc.store.record import RunRecord

ROOT = Path(__file__).parents[2]
"""Where other processes find ``fedhpc`` and ``tests``."""


def record(
    algorithm: str = "fedavg", scenario: str = "per_domain", trial: int = 0, updates: int = 2, **changes: Any
) -> RunRecord:
    """A run of three evaluations, ``updates`` server updates and four clients, the last a straggler."""
    fields: dict[str, Any] = {
        "seed": 7,
        "evaluations": {
            "time": [0.0, 1800.0, 3600.0],
            "server_updates": [0, 1, 2],
            "client_updates": [0, 10, 20],
            "late_updates": [0, 1, 4],
            "client_trips": [0, 13, 26],
            "local_steps": [0, 50, 100],
            "resource_used": [0.0, 100.5, 200.25],
            "resource_wasted": [0.0, 10.5, 20.25],
            "unique_clients": [0, 3, 4],
            "total_accuracy": [0.1, 0.5, 0.75],
            "straggler_accuracy": [0.125, 0.25, 0.5],
            "loss": [2.25, 1.5, 0.5],
        },
        "server_updates": {
            "server_update_time": [1800.0 * (number + 1) for number in range(updates)],
            "staleness": [0.5] * updates,
            "staleness_max": [2] * updates,
            "updates_aggregated": [10] * updates,
        },
        "clients": {
            "examples": [4, 0, 7, 9],
            "straggler": [False, False, False, True],
            "participations": [9, 9, 8, 1],
            "updates_aggregated_of_client": [8, 7, 5, 0],
        },
        "client_updates": {"duration": [1.5 * number for number in range(10 * updates)]},
        "attributes": {
            "title": "A title",
            "digest": "d" * 64,
            "settings": "task:\n  kind: null\n",
            "wall_seconds": 1.5,
        },
    }
    for key, change in changes.items():
        fields[key] = {**fields[key], **change} if isinstance(change, dict) else change
    return RunRecord(algorithm, scenario, trial, **fields)


def null_record() -> RunRecord:
    """A run of the null task, which has no accuracies and no loss."""
    run = record()
    evaluations = without(run.evaluations, "total_accuracy", "straggler_accuracy", "loss")
    return replace(run, evaluations=evaluations)


def without(block: Any, *names: str) -> dict[str, Any]:
    """A record's block less some columns."""
    return {name: column for name, column in block.items() if name not in names}


def run_path(folder: Path, of: RunRecord) -> Path:
    """Where the design puts a run's result."""
    return folder / of.algorithm / of.scenario / f"trial-{of.trial}.h5"
