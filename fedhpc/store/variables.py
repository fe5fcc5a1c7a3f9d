"""Every variable of a result file: its dimension, type, units and long name. No other name is written or read."""

from dataclasses import dataclass
from typing import Literal

Dimension = Literal["evaluation", "server_update", "client", "client_update"]


@dataclass(frozen=True)
class Variable:
    """``optional`` variables are absent where the task has no such thing. ``coordinate`` marks the times, which
    accompany every other variable along their dimension."""

    dimension: Dimension
    dtype: Literal["int8", "int64", "float32", "float64"]
    units: str
    long_name: str
    optional: bool = False
    coordinate: bool = False


VARIABLES: dict[str, Variable] = {
    "time": Variable(
        "evaluation",
        "float64",
        "s",
        "time of the evaluated server version: virtual, or the clock's (attribute clock)",
        coordinate=True,
    ),
    "server_updates": Variable("evaluation", "int64", "1", "server updates"),
    "client_updates": Variable("evaluation", "int64", "1", "client updates aggregated"),
    "late_updates": Variable(
        "evaluation", "int64", "1", "client updates that came after their round's server update and were still used"
    ),
    "client_trips": Variable("evaluation", "int64", "1", "client updates uploaded, aggregated or not"),
    "local_steps": Variable("evaluation", "int64", "1", "mini-batches behind the client updates that were used"),
    "resource_used": Variable("evaluation", "float64", "s", "learner time spent by clients"),
    "resource_wasted": Variable("evaluation", "float64", "s", "learner time whose client update was never used"),
    "unique_clients": Variable("evaluation", "int64", "1", "clients with an update used"),
    "total_accuracy": Variable(
        "evaluation", "float64", "1", "accuracy on all held-out examples, as a fraction", optional=True
    ),
    "straggler_accuracy": Variable(
        "evaluation",
        "float64",
        "1",
        "accuracy on the held-out examples of the straggler classes or tags, as a fraction",
        optional=True,
    ),
    "top5_accuracy": Variable(
        "evaluation",
        "float64",
        "1",
        "share of the held-out examples whose label is among the five highest scores",
        optional=True,
    ),
    "balanced_accuracy": Variable(
        "evaluation",
        "float64",
        "1",
        "mean over the held-out classes of each one's accuracy, as a fraction",
        optional=True,
    ),
    "dice": Variable(
        "evaluation",
        "float64",
        "1",
        "Dice score, mean over classes and held-out examples, as a fraction",
        optional=True,
    ),
    "loss": Variable(
        "evaluation",
        "float64",
        "nat",
        "mean loss on all held-out examples, or of next words on their tokens; of segmentation 1 less the Dice score",
        optional=True,
    ),
    "perplexity": Variable("evaluation", "float64", "1", "exponential of the mean loss of a token", optional=True),
    "server_update_time": Variable(
        "server_update",
        "float64",
        "s",
        "time of the server update: virtual, or the clock's (attribute clock)",
        coordinate=True,
    ),
    "staleness": Variable(
        "server_update",
        "float64",
        "1",
        "mean over the aggregated client updates of the server updates between download and upload",
    ),
    "staleness_max": Variable("server_update", "int64", "1", "largest staleness among the aggregated client updates"),
    "updates_aggregated": Variable("server_update", "int64", "1", "client updates aggregated by this server update"),
    "coreset_error": Variable(
        "server_update",
        "float64",
        "1",
        "length of the gradient that coresets miss (FedCore, equation 2), mean over the update's coresets",
        optional=True,
    ),
    "examples": Variable("client", "int64", "1", "training examples that the client holds"),
    "straggler": Variable("client", "int8", "1", "1 for a straggler client, else 0"),
    "participations": Variable("client", "int64", "1", "times that the client was started"),
    "lost_at": Variable(
        "client", "float64", "s", "second at which the silo was given up for good, NaN if it was not", optional=True
    ),
    "updates_aggregated_of_client": Variable("client", "int64", "1", "client updates of this client that were used"),
    "duration": Variable("client_update", "float32", "s", "virtual time from the client's download to its upload"),
}

INDEXES: dict[Dimension, tuple[int, str]] = {
    "evaluation": (0, "evaluation; 0 is the initial model"),
    "server_update": (1, "server version that the update made; version 0 is the initial model"),
    "client": (0, "client"),
    "client_update": (0, "client update in the order of use; of the first million"),
}
"""Dimension -> its coordinate's first value and long name."""

CELL: dict[str, str] = {
    "algorithm": "algorithm's name in the experiment",
    "scenario": "latency scenario's name in the experiment",
    "trial": "trial, from 0",
    "seed": "seed of the experiment",
}
"""Scalar coordinates that say which run a file is -> their long names."""
