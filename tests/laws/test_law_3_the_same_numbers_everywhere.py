"""Law 3: one rank or five, killed and resumed or not: the same bytes in every numeric variable."""

import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.experiment import Run
from fedhpc.federation.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from fedhpc.federation.engine import Engine
from fedhpc.federation.schedule import make_schedule
from tests.federations import DENSE, Federation, Ranks, by_the_papers, reference, trained
from tests.mpi import mpi, numbers, run_command
from tests.pictures import PLAIN, picture_experiment
from tests.relay import RELAY, with_relay

ALGORITHMS = ["over", "prox", "fedbuff"]
_ROUNDS = {"cohort": 3, "over_selection": 5}
_MOMENTUM = {"name": "sgd", "rate": 0.7, "momentum": 0.5}
LATE: dict[str, Any] = {
    "fare_dust": {
        "scheduler": "fare_dust",
        **_ROUNDS,
        "histories": 3,
        "client": {"distillation": 0.3},
        "ema": {"decay": 0.8},
    },
    "fare_dust_adam": {
        "scheduler": "fare_dust",
        **_ROUNDS,
        "histories": 2,
        "client": {"distillation": 0.3},
        "server_optimizer": {"name": "adam", "rate": 0.01},
    },
    "feast": {"scheduler": "feast", **_ROUNDS, "tau_max": 40.0, "decay": 0.7, "kappa": 0.5},
    "fedasync": {"scheduler": "asynchronous", "concurrency": 6, "mixing": 0.4, "staleness": {"kind": "polynomial"}},
    "fedbuff_kd_ema": {
        "scheduler": "buffered",
        "buffer_size": 3,
        "concurrency": 8,
        "client": {"distillation": 0.3},
        "server_optimizer": _MOMENTUM,
        "ema": {"decay": 0.8},
    },
    "compass": {
        "scheduler": "compass",
        "min_steps": 2,
        "max_steps": 8,
        "mixing": 0.9,
        "staleness": {"kind": "polynomial"},
        "normalization": "steps",
        "client": {"distillation": 0.3},
        "server_optimizer": _MOMENTUM,
    },
    "tiered": {
        "scheduler": "tiered",
        "speed_ratio": 1.3,
        "client": {"distillation": 0.3},
        "server_optimizer": {"name": "sgd", "rate": 1.0},
        "ema": {"decay": 0.8},
    },
}
"""Those whose server does more than step along one weighted sum."""
WITH_STATISTICS = ["fedbuff_sum", "fedasync", "relay"]
"""Of ``tests.pictures``."""

CORESETS = ["fedcore", "fedcore_30", "fedprox_partial"]


def with_deadlines(settings: dict[str, Any], model: dict[str, Any] | None = None) -> None:
    """FedCore and its baseline in place of the algorithms, deadlines in place of the latencies."""
    core = {"within_deadline": "coreset", "record_coreset_error": True, "epochs": 3}
    settings["algorithms"] = {
        "fedcore": {"scheduler": "synchronous", "cohort": 5, "client": core},
        "fedcore_30": {
            "scheduler": "synchronous",
            "cohort": 4,
            "over_selection": 5,
            "selection": "by_examples",
            "client": core,
        },
        "fedprox_partial": {
            "scheduler": "synchronous",
            "cohort": 5,
            "client": {"within_deadline": "fewer_epochs", "epochs": 3, "proximal": 0.1},
        },
    }
    quick = {"distribution": "lognormal", "mu": 0.0, "sigma": 0.5}
    capability = {"distribution": "normal", "mean": 1, "std": 0.25}
    settings["scenarios"] = {"domain": {"communication": quick, "capability": capability, "straggler_percent": 60}}
    if model is not None:
        settings["task"]["model"] = model


@pytest.mark.parametrize("step", ["{}", "{clients: 3}", "{form: channels_last}"])
def test_the_same_bytes_with_1_2_3_and_5_ranks(tiny: Callable[..., Path], tmp_path: Path, step: str) -> None:
    file = tiny()
    cells = [Run(algorithm, "domain", 1) for algorithm in ALGORITHMS]
    for ranks in (1, 2, 3, 5):
        cell = Run(",".join(ALGORITHMS), "domain", 1)
        finished = mpi(ranks, run_command(file, cell, tmp_path / str(ranks), step=step))
        assert finished.returncode == 0, finished.stderr
    for cell in cells:
        found = {ranks: numbers(cell.file(tmp_path / str(ranks), ".h5")) for ranks in (1, 2, 3, 5)}
        assert {"total_accuracy", "straggler_accuracy", "loss", "time", "staleness"} <= found[1].keys()
        assert found[2] == found[1]
        assert found[3] == found[1]
        assert found[5] == found[1]


def test_the_same_bytes_with_1_2_and_4_ranks_where_late_clients_are_heard(
    tiny: Callable[..., Path], tmp_path: Path
) -> None:
    file = tiny(lambda settings: settings.update(algorithms=LATE))
    for ranks in (1, 2, 4):
        finished = mpi(ranks, run_command(file, Run(",".join(LATE), "domain", 1), tmp_path / str(ranks)))
        assert finished.returncode == 0, finished.stderr
    for algorithm in LATE:
        cell = Run(algorithm, "domain", 1)
        found = {ranks: numbers(cell.file(tmp_path / str(ranks), ".h5")) for ranks in (1, 2, 4)}
        assert found[2] == found[1]
        assert found[4] == found[1]


def test_the_same_bytes_with_1_and_2_ranks_where_a_model_keeps_statistics(tmp_path: Path) -> None:
    file, cell = picture_experiment(tmp_path), Run("fedbuff_sum", "domain", 1)
    for ranks in (1, 2):
        finished = mpi(ranks, run_command(file, cell, tmp_path / str(ranks), step="{form: plain}"))
        assert finished.returncode == 0, finished.stderr
    assert numbers(cell.file(tmp_path / "2", ".h5")) == numbers(cell.file(tmp_path / "1", ".h5"))


@pytest.mark.parametrize("model", [None, {"name": "logistic"}], ids=["mlp", "logistic"])
def test_the_same_bytes_with_1_and_2_ranks_where_clients_build_coresets(
    tiny: Callable[..., Path], tmp_path: Path, model: dict[str, Any] | None
) -> None:
    file = tiny(lambda settings: with_deadlines(settings, model))
    for ranks in (1, 2):
        finished = mpi(ranks, run_command(file, Run(",".join(CORESETS), "domain", 1), tmp_path / str(ranks)))
        assert finished.returncode == 0, finished.stderr
    for algorithm in CORESETS:
        cell = Run(algorithm, "domain", 1)
        found = {ranks: numbers(cell.file(tmp_path / str(ranks), ".h5")) for ranks in (1, 2)}
        assert found[2] == found[1]
        assert "duration" in found[1]
        errors = found[1].get("coreset_error")
        if algorithm.startswith("fedcore"):
            assert errors is not None
            assert (np.frombuffer(errors) > 0).any()  # a server update without coresets has none
        else:
            assert errors is None


@pytest.mark.parametrize(("stack", "scenario"), [(1, "domain"), (3, "dynavail")])
def test_the_same_bytes_with_1_2_and_3_ranks_where_updates_and_losses_are_looked_at(
    tiny: Callable[..., Path], tmp_path: Path, stack: int, scenario: str
) -> None:
    file = tiny(with_relay)
    for ranks in (1, 2, 3):
        # A checkpoint at every turn leaves no trace.
        cell, step = Run(",".join(RELAY), scenario, 1), f"{{clients: {stack}}}"
        finished = mpi(ranks, run_command(file, cell, tmp_path / str(ranks), 0.001 * ranks, step))
        assert finished.returncode == 0, finished.stderr
    for algorithm in RELAY:
        cell = Run(algorithm, scenario, 1)
        found = {ranks: numbers(cell.file(tmp_path / str(ranks), ".h5")) for ranks in (1, 2, 3)}
        assert found[2] == found[1]
        assert found[3] == found[1]


class Killed(Exception):
    """Stands for a kill: the engine is left where it is, and only its last checkpoint remains."""


def _after_four_kills(federation: Federation, chance: random.Random, path: Path) -> Engine:
    """The engine at its end, on ranks that answer in any order; four before it were killed at a checkpoint."""

    def pulse(engine: Engine) -> None:
        if engine.newest is not None and chance.random() < 0.5:
            save_checkpoint(path, engine.checkpoint(), "digest", federation.choice)
            if kills < 4 and engine.applied >= last_resort + 2:
                raise Killed

    kills, last_resort = 0, 0
    while True:
        engine = federation.engine(Ranks(federation.training(), chance), pulse=pulse)
        checkpoint = load_checkpoint(path, "digest", federation.choice)
        if checkpoint is not None:
            engine.restore(checkpoint)
            last_resort = checkpoint.version
        try:
            engine.run()
            break
        except Killed:
            kills += 1
    assert kills == 4
    return engine


@pytest.mark.parametrize("algorithm", ["fedavg", *ALGORITHMS])
def test_resumed_from_any_checkpoint_the_same_bytes(tiny: Callable[..., Path], tmp_path: Path, algorithm: str) -> None:
    federation = Federation.of(tiny(), algorithm)
    weights, evaluations, _ = reference(federation)
    engine = _after_four_kills(federation, random.Random(algorithm), tmp_path / "trial-0.checkpoint")
    assert engine.checkpoint().server["weights"].tobytes() == weights.tobytes()
    assert engine.evaluated == evaluations
    untroubled = federation.engine()
    untroubled.run()
    for columns in ("server_updates", "evaluations"):
        first = getattr(engine.recorder, columns)(*([{}] if columns == "evaluations" else []))
        second = getattr(untroubled.recorder, columns)(*([{}] if columns == "evaluations" else []))
        assert {name: column.tobytes() for name, column in first.items()} == {
            name: column.tobytes() for name, column in second.items()
        }


@pytest.mark.parametrize(
    ("algorithm", "model", "choice"),
    [
        ("fedcore", "mlp", {"form": "plain"}),
        ("fedcore_30", "mlp", {"form": "plain"}),
        ("fedcore", "logistic", {"clients": 1}),
        ("fedcore_30", "logistic", {"clients": 3}),
        ("fedprox_partial", "mlp", {"clients": 3}),
    ],
)
def test_coresets_and_their_errors_are_the_same_after_any_kill(
    tiny: Callable[..., Path], tmp_path: Path, algorithm: str, model: str, choice: dict[str, Any]
) -> None:
    named = {"name": "logistic"} if model == "logistic" else None
    federation = Federation.of(tiny(lambda settings: with_deadlines(settings, named)), algorithm)
    federation.choice = DENSE.model_copy(update=choice)
    weights, _, _ = reference(federation)
    engine = _after_four_kills(federation, random.Random(algorithm), tmp_path / "trial-0.checkpoint")
    untroubled = federation.engine()
    untroubled.run()
    kept, undisturbed = engine.checkpoint(), untroubled.checkpoint()
    assert kept.server["weights"].tobytes() == undisturbed.server["weights"].tobytes()
    assert engine.evaluated == untroubled.evaluated
    assert engine.coreset_errors == untroubled.coreset_errors
    assert bool(engine.coreset_errors) == algorithm.startswith("fedcore")
    if choice.get("clients", 1) == 1:
        # Not nearly: of medoids that are nearly as good the last bit of a weight chooses, by the kind of processor.
        assert kept.server["weights"].tobytes() == weights.tobytes()
    else:  # logistic's coresets are of the examples themselves
        np.testing.assert_allclose(kept.server["weights"], weights, rtol=1e-4, atol=1e-5)


def _by_the_papers_after_any_kill(
    federation: Federation, chance: random.Random, folder: Path
) -> tuple[Engine, Checkpoint, Checkpoint]:
    """The engine of a federation that was killed four times, after its bytes were compared with an undisturbed one's
    and its numbers with a plain reimplementation's; and what both keep at the end."""
    output, evaluations = by_the_papers(federation)
    engine = _after_four_kills(federation, chance, folder / "trial-0.checkpoint")
    untroubled = federation.engine()
    untroubled.run()
    kept, undisturbed = engine.checkpoint(), untroubled.checkpoint()
    assert kept.server.keys() == undisturbed.server.keys()
    assert all(value.tobytes() == undisturbed.server[name].tobytes() for name, value in kept.server.items())
    assert engine.evaluated == untroubled.evaluated
    np.testing.assert_allclose(engine.output(), output, rtol=1e-4, atol=1e-5)
    assert engine.evaluated.keys() == evaluations.keys()
    for version, shards in evaluations.items():
        np.testing.assert_allclose(engine.evaluated[version][0].loss, shards[0].loss, rtol=1e-4)
    return engine, kept, undisturbed


@pytest.mark.parametrize("algorithm", LATE)
@pytest.mark.parametrize("stack", [1, 3])
def test_algorithms_that_hear_late_clients_give_the_papers_models_after_any_kill(
    tiny: Callable[..., Path], tmp_path: Path, algorithm: str, stack: int
) -> None:
    federation = Federation.of(tiny(lambda settings: settings.update(algorithms=LATE)), algorithm)
    federation.choice = DENSE.model_copy(update={"clients": stack})
    _, kept, _ = _by_the_papers_after_any_kill(federation, random.Random(algorithm), tmp_path)
    assert not kept.versions
    assert not kept.deltas.of_teachers
    assert not kept.deltas.server


@pytest.mark.parametrize("algorithm", RELAY)
@pytest.mark.parametrize(("stack", "scenario"), [(1, "domain"), (3, "dynavail")])
def test_equation_2_and_oorts_choices_are_the_papers_after_any_kill(
    tiny: Callable[..., Path], tmp_path: Path, algorithm: str, stack: int, scenario: str
) -> None:
    federation = Federation.of(tiny(with_relay), algorithm, scenario)
    federation.choice = DENSE.model_copy(update={"clients": stack})
    engine, kept, undisturbed = _by_the_papers_after_any_kill(federation, random.Random(algorithm), tmp_path)
    assert kept.losses == undisturbed.losses
    assert bool(kept.losses) == algorithm.startswith("oort")
    assert not kept.versions
    replayed = make_schedule(federation.settings, federation.data.population)
    replayed.losses = engine.schedule.losses
    ages = [{one.staleness > 0 for one in update.updates} for update in replayed.server_updates()]
    assert ({True, False} in ages) == (federation.settings.algorithm.stale is not None)  # fresh and stale ones together


@pytest.mark.parametrize("algorithm", WITH_STATISTICS)
def test_statistics_outlast_a_kill(tmp_path: Path, algorithm: str) -> None:
    federation = Federation.of(picture_experiment(tmp_path), algorithm)
    federation.choice = PLAIN
    untroubled = federation.engine()
    untroubled.run()
    path = tmp_path / "trial-0.checkpoint"

    def pulse(engine: Engine) -> None:
        if engine.applied == 1:
            save_checkpoint(path, engine.checkpoint(), "digest", federation.choice)
            raise Killed

    with pytest.raises(Killed):
        federation.engine(Ranks(federation.training(), random.Random(algorithm)), pulse=pulse).run()
    checkpoint = load_checkpoint(path, "digest", federation.choice)
    assert checkpoint is not None
    resumed = federation.engine(Ranks(federation.training(), random.Random(algorithm)))
    resumed.restore(checkpoint)
    resumed.run()
    assert resumed.output().tobytes() == untroubled.output().tobytes()
    assert resumed.checkpoint().server["statistics"].tobytes() == untroubled.checkpoint().server["statistics"].tobytes()
    assert resumed.evaluated == untroubled.evaluated


def test_a_resumed_run_recomputes_nothing_that_its_checkpoint_holds(tiny: Callable[..., Path]) -> None:
    federation = Federation.of(tiny(), "fedbuff")
    engine = federation.engine()
    halfway: list[Engine] = []

    def stop(engine: Engine) -> None:
        if engine.applied >= 10:
            halfway.append(engine)
            raise Killed

    engine = federation.engine(pulse=stop)
    with pytest.raises(Killed):
        engine.run()
    checkpoint = deepcopy(halfway[0].checkpoint())
    ranks = Ranks(federation.training(), random.Random(0))
    resumed = federation.engine(ranks)
    resumed.restore(checkpoint)
    resumed.run()
    again = [(work.makes, work.place) for work in trained(ranks.given)]
    assert not [
        (makes, place)
        for makes, place in again
        if makes in checkpoint.assemblies and checkpoint.assemblies[makes].has(place)
    ]
    _, _, all_updates = reference(federation)
    assert len(again) < all_updates - 3 * 9  # ten server updates of three lie before it


@pytest.mark.parametrize("algorithm", ["fedavg", *ALGORITHMS])
def test_stacks_give_the_same_bytes_in_any_order_and_after_any_kill(tiny: Callable[..., Path], algorithm: str) -> None:
    federation = Federation.of(tiny(), algorithm)
    federation.choice = DENSE.model_copy(update={"clients": 3})
    undisturbed = federation.engine()
    undisturbed.run()
    expected = undisturbed.checkpoint().server["weights"]
    chance = random.Random(algorithm)

    def stop(engine: Engine) -> None:
        if engine.applied >= 5:
            raise Killed

    engine = federation.engine(Ranks(federation.training(), chance), pulse=stop)
    with pytest.raises(Killed):
        engine.run()
    resumed = federation.engine(Ranks(federation.training(), chance))
    resumed.restore(engine.checkpoint())
    resumed.run()
    assert resumed.checkpoint().server["weights"].tobytes() == expected.tobytes()
    assert resumed.evaluated == undisturbed.evaluated
    # Stacks train as each client alone, up to rounding.
    alone, _, _ = reference(federation)
    np.testing.assert_allclose(expected, alone, rtol=1e-4, atol=1e-5)
