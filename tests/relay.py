"""Rounds whose late updates are still used, on the tiny experiment: RELAY, Oort and SAFA."""

from copy import deepcopy
from typing import Any

_RELAY: dict[str, Any] = {"scheduler": "stale_synchronous", "stale": {"weighting": "relay"}}
RELAY: dict[str, Any] = {
    "relay": {
        **_RELAY,
        "cohort": 3,
        "over_selection": 5,
        "selection": {"kind": "priority", "rest": 1},
        "adaptive_target": True,
        "client": {"distillation": 0.3},
        "server_optimizer": {"name": "sgd", "rate": 0.7, "momentum": 0.5},
        "ema": {"decay": 0.8},
    },
    "relay_deadline": {
        **_RELAY,
        "cohort": 6,
        "deadline": 25.0,
        "target_ratio": 0.5,
        "stale": {"weighting": "relay", "beta": 0.6, "threshold": 2},
        "client": {"clip": 0.3},
        "server_optimizer": {"name": "adam", "rate": 0.01},
    },
    "oort": {
        **_RELAY,
        "cohort": 3,
        "over_selection": 5,
        "selection": {"kind": "oort", "exploration": 0.5, "pacer_rounds": 2},
    },
    "oort_alone": {"scheduler": "stale_synchronous", "cohort": 3, "over_selection": 4, "selection": {"kind": "oort"}},
    "safa": {
        "scheduler": "stale_synchronous",
        "selection": {"kind": "everybody"},
        "target_ratio": 0.3,
        "deadline": 100.0,
        "stale": {"weighting": "equal", "threshold": 2},
    },
}
"""Those whose late updates are weighed by what they are, and those whose selection reads losses (``oort``)."""


def with_relay(settings: dict[str, Any]) -> None:
    """They take the place of the algorithms. In the scenario ``dynavail`` clients come and go, and drop out."""
    settings["algorithms"] = deepcopy(RELAY)
    slow = {"distribution": "lognormal", "mu": 6.0, "sigma": 0.5}
    domain = settings["scenarios"]["domain"]
    settings["scenarios"]["dynavail"] = {**domain, "per_example": slow, "availability": {"source": "generated"}}
