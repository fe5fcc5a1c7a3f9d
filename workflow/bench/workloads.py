"""What is measured, as data: the federations, and the size of each.

A, B and C are the models on which federated learning's own papers and tools measure themselves: the CNN of EMNIST
(Reddi et al. 2021), the Synthetic logistic regression of FedProx (Li et al. 2020), the MNIST CNN of FedCompass (Li et
al. 2024).
"""

from dataclasses import dataclass
from typing import Any

PARAMETERS = {"emnist_cnn": 1_206_590, "mnist_cnn": 582_026}

IMAGE_SHAPE = (28, 28)

# Hard et al., Tables 1 and 2; virtual seconds, which cost nothing.
_SCENARIO = {
    "communication": {"distribution": "lognormal", "mu": 2.7, "sigma": 1.0},
    "per_example": {"distribution": "lognormal", "mu": -2.0, "sigma": 0.2},
    "overhead": {"distribution": "lognormal", "mu": 3.0, "sigma": 0.3},
}
_SLOW_STRAGGLERS = {
    "communication": {"distribution": "lognormal", "mu": 3.7, "sigma": 1.0},
    "per_example": {"distribution": "lognormal", "mu": -1.0, "sigma": 0.5},
    "overhead": {"distribution": "lognormal", "mu": 3.5, "sigma": 0.3},
}
SCENARIO = "alike"
"""The name of every workload's one scenario."""


@dataclass(frozen=True)
class Images:
    """Random greyscale images with random labels: ``examples`` for each of ``clients``, and ``held_out`` ones."""

    clients: int
    examples: int
    held_out: int
    classes: int


@dataclass(frozen=True)
class Workload:
    """A federation to be measured: an experiment file's ``settings``, and the ``images`` that it reads, if any."""

    settings: dict[str, Any]
    images: Images | None = None

    @property
    def algorithms(self) -> list[str]:
        """The names of its algorithms, in order."""
        return list(self.settings["algorithms"])


@dataclass(frozen=True)
class Sizes:
    """How much work each workload is: server updates, and null client updates."""

    rounds_a: int
    rounds_b: int
    rounds_c: int
    rounds_waiting: int
    null_updates: int
    learners: int
    seconds: float
    """The learners who come and go, and the virtual seconds of that."""
    share: float
    """The clients of A, B and C, their cohorts, and C's steps, as a share of the true ones."""

    def of(self, whole: int) -> int:
        """That share of a number, at least two: something for either rank."""
        return max(2, round(whole * self.share))


FULL = Sizes(
    rounds_a=5,
    rounds_b=50,
    rounds_c=2,
    rounds_waiting=5,
    null_updates=200_000,
    learners=1_000_000,
    seconds=604_800,
    share=1.0,
)
SMALL = Sizes(
    rounds_a=1, rounds_b=2, rounds_c=1, rounds_waiting=1, null_updates=2_000, learners=2_000, seconds=5_000, share=0.05
)
"""Enough to see that everything runs; its figures say nothing."""


def emnist(sizes: Sizes, precision: str) -> Workload:
    """A: 200 clients of 100 images each, five steps of 20 an update, cohorts of 50."""
    images = Images(clients=sizes.of(200), examples=100, held_out=100, classes=62)
    client = {"batch_size": 20, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.02}, "precision": precision}
    return _on_images("emnist_cnn", images, client, sizes.of(50), sizes.rounds_a)


def synthetic(sizes: Sizes, work: dict[str, int]) -> Workload:
    """B: 120 clients, batches of 8, cohorts of 60. ``work`` is the client's measure of it: steps, or epochs over the
    ragged sizes of Synthetic."""
    data = {"source": "synthetic", "alpha": 1.0, "beta": 1.0, "clients": sizes.of(120)}
    client = {"batch_size": 8, "optimizer": {"name": "sgd", "rate": 0.01}, **work}
    return Workload(_fedavg(data, "logistic", client, sizes.of(60), sizes.rounds_b, evaluate_every=10))


def mnist(sizes: Sizes, steps: int) -> Workload:
    """C: so many steps of 64 an update, cohorts of 10 among 20 clients of 320 images each."""
    return _on_images("mnist_cnn", _mnist_images(sizes), _mnist_client(sizes, steps), sizes.of(10), sizes.rounds_c)


def waiting(sizes: Sizes, rounds: int) -> Workload:
    """C with one client at a time: the training rank trains it, and rank 0 has nothing to do but wait."""
    return _on_images("mnist_cnn", _mnist_images(sizes), _mnist_client(sizes, 50), 1, rounds, evaluate=False)


def schedules(sizes: Sizes) -> Workload:
    """Nothing is trained: the quickstart's algorithms on 1,000 clients, of whom 250 are slow."""
    return Workload(
        {
            "task": {"kind": "null", "clients": 1000, "examples": 100, "stragglers": 250},
            "client": {"batch_size": 10, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.04}},
            "server_optimizer": {"name": "sgd", "rate": 1.0},
            "algorithms": {
                "fedavg": {"scheduler": "synchronous", "cohort": 10, "weighting": "uniform"},
                "fedavg_over_selection": {
                    "scheduler": "synchronous",
                    "cohort": 10,
                    "over_selection": 13,
                    "weighting": "uniform",
                },
                "fedbuff": {"scheduler": "buffered", "buffer_size": 5, "concurrency": 20},
            },
            "scenarios": {SCENARIO: {**_SCENARIO, "stragglers": _SLOW_STRAGGLERS}},
            "budget": {"client_updates": sizes.null_updates},
            "evaluation": {"every": sizes.null_updates / 20},
        }
    )


def week(sizes: Sizes) -> Workload:
    """Nothing is trained: a week of a million learners who come and go, in rounds of 100 and a deadline of 100 seconds,
    by the three ways to select among them."""
    rounds = {"scheduler": "stale_synchronous", "cohort": 100, "over_selection": 130, "deadline": 100}
    stale = {"weighting": "relay", "threshold": 5}
    return Workload(
        {
            "task": {"kind": "null", "clients": sizes.learners, "examples": 20},
            "client": {"batch_size": 10, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.04}},
            "server_optimizer": {"name": "sgd", "rate": 1.0},
            "algorithms": {
                "uniform": {**rounds, "stale": stale},
                "relay": {**rounds, "stale": stale, "selection": {"kind": "priority"}, "adaptive_target": True},
                "oort": {**rounds, "selection": {"kind": "oort"}},
            },
            "scenarios": {
                SCENARIO: {
                    "communication": {"distribution": "lognormal", "mu": 3.2, "sigma": 0.8},
                    "per_example": {"distribution": "lognormal", "mu": 0.6, "sigma": 0.5},
                    "availability": {"source": "generated"},
                }
            },
            "budget": {"virtual_seconds": sizes.seconds},
            "evaluation": {"every": sizes.seconds / 20, "unit": "virtual_seconds"},
        }
    )


def tiny() -> Workload:
    """A run that is over as soon as it has begun: what remains is its start."""
    data = {"source": "digits", "held_out": 0.2}
    client = {"batch_size": 10, "epochs": 1, "optimizer": {"name": "sgd", "rate": 0.04}}
    settings = _fedavg(data, "logistic", client, 4, 2, evaluate_every=1)
    settings["task"]["partition"] = {"kind": "iid", "clients": 20}
    return Workload(settings)


def _mnist_images(sizes: Sizes) -> Images:
    return Images(clients=sizes.of(20), examples=320, held_out=100, classes=10)


def _mnist_client(sizes: Sizes, steps: int) -> dict[str, Any]:
    return {"batch_size": 64, "steps": sizes.of(steps), "optimizer": {"name": "sgd", "rate": 0.01}}


def _on_images(
    model: str, images: Images, client: dict[str, Any], cohort: int, rounds: int, *, evaluate: bool = True
) -> Workload:
    data = {
        "source": "file",
        "path": "images.npz",
        "features": "x_{split}",
        "label": "y_{split}",
        "client": "client_{split}",
        "scaling": "unit",
    }
    every = 1 if evaluate else rounds
    return Workload(_fedavg(data, model, client, cohort, rounds, evaluate_every=every), images)


def _fedavg(
    data: dict[str, Any], model: str, client: dict[str, Any], cohort: int, rounds: int, *, evaluate_every: int
) -> dict[str, Any]:
    return {
        "task": {
            "kind": "classification",
            "data": data,
            "partition": {"kind": "by_column"},
            "model": {"name": model},
        },
        "client": client,
        "server_optimizer": {"name": "sgd", "rate": 1.0},
        "algorithms": {"fedavg": {"scheduler": "synchronous", "cohort": cohort}},
        "scenarios": {SCENARIO: _SCENARIO},
        "budget": {"server_updates": rounds},
        "evaluation": {"every": evaluate_every, "unit": "server_updates"},
    }
