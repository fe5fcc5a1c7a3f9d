"""A federation that ends with the first evaluation that is good enough."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.budget import Target
from fedhpc.experiment import Run
from fedhpc.federation.engine import Engine
from fedhpc.federation.recorder import Metrics
from fedhpc.mistakes import ExperimentError
from fedhpc.store import open_run
from tests.federations import Federation, Ranks
from tests.mpi import mpi, numbers, run_command
from tests.relay import with_relay

CELL = Run("fedbuff", "domain", 0)


def often(settings: dict[str, Any]) -> None:
    settings["evaluation"] = {"every": 6}
    settings["client"]["optimizer"]["rate"] = 0.03


def with_target(value: float, metric: str = "total_accuracy") -> Callable[[dict[str, Any]], None]:
    def change(settings: dict[str, Any]) -> None:
        often(settings)
        settings["budget"]["target"] = {"metric": metric, "value": value}

    return change


def test_a_target_is_met_at_or_above_it() -> None:
    total = Target(metric="total_accuracy", value=0.5)
    assert [total.is_met(Metrics(found, 0.9, 1.0)) for found in (0.49, 0.5, 0.51)] == [False, True, True]
    stragglers = Target(metric="straggler_accuracy", value=0.5)
    assert [stragglers.is_met(Metrics(0.9, found, 1.0)) for found in (None, 0.4, 0.6)] == [False, False, True]


def test_a_run_ends_with_the_evaluation_that_reaches_it(tiny: Callable[..., Path], tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert mpi(1, run_command(tiny(often), CELL, whole)).returncode == 0
    with open_run(CELL.file(whole, ".h5")) as run:
        accuracies = run.total_accuracy.values
        counts = {name: run[name].values for name in ("time", "client_trips", "server_updates", "resource_used")}
    # A value that is first reached somewhere on the way.
    value = float(np.unique(accuracies)[len(np.unique(accuracies)) // 2])
    expected = int(np.argmax(accuracies >= value))
    assert 0 < expected < len(accuracies) - 2
    found = {}
    for ranks in (1, 3):
        folder = tmp_path / str(ranks)
        finished = mpi(ranks, run_command(tiny(with_target(value)), CELL, folder))
        assert finished.returncode == 0, finished.stderr
        found[ranks] = numbers(CELL.file(folder, ".h5"))
        with open_run(CELL.file(folder, ".h5")) as run:
            assert run.attrs["target_reached"] == 1
            assert run.total_accuracy.values.tolist() == accuracies[: expected + 1].tolist()
            for name, values in counts.items():
                assert run[name].values.tolist() == values[: expected + 1].tolist()
            assert len(run.server_update) == counts["server_updates"][expected]
            assert run.updates_aggregated_of_client.values.sum() == 3 * len(run.server_update)
    assert found[1] == found[3]


def test_a_schedule_that_reads_losses_ends_with_its_target_too(tiny: Callable[..., Path], tmp_path: Path) -> None:
    # Its schedule is played once more, with the losses that were measured.
    def change(settings: dict[str, Any], value: float | None = None) -> None:
        often(settings)
        with_relay(settings)
        if value is not None:
            settings["budget"]["target"] = {"metric": "total_accuracy", "value": value}

    cell = Run("oort", "domain", 0)
    assert mpi(1, run_command(tiny(change), cell, tmp_path / "whole")).returncode == 0
    with open_run(cell.file(tmp_path / "whole", ".h5")) as run:
        accuracies, used = run.total_accuracy.values, run.resource_used.values
    # Of the evaluations that are better than all before them, the one next to the middle.
    first = [int(np.argmax(accuracies >= value)) for value in np.unique(accuracies)]
    expected = min(first, key=lambda place: abs(place - len(accuracies) // 2))
    assert 0 < expected < len(accuracies) - 1
    value = float(accuracies[expected])
    found = {}
    for ranks in (1, 3):
        file = tiny(lambda settings: change(settings, value))
        finished = mpi(ranks, run_command(file, cell, tmp_path / str(ranks)))
        assert finished.returncode == 0, finished.stderr
        found[ranks] = numbers(cell.file(tmp_path / str(ranks), ".h5"))
        with open_run(cell.file(tmp_path / str(ranks), ".h5")) as run:
            assert run.total_accuracy.values.tolist() == accuracies[: expected + 1].tolist()
            assert run.resource_used.values.tolist() == used[: expected + 1].tolist()
    assert found[1] == found[3]


def test_a_target_that_is_out_of_reach_changes_nothing_but_is_told(tiny: Callable[..., Path], tmp_path: Path) -> None:
    assert mpi(1, run_command(tiny(often), CELL, tmp_path / "whole")).returncode == 0
    assert mpi(1, run_command(tiny(with_target(1.0)), CELL, tmp_path / "target")).returncode == 0
    whole, target = (numbers(CELL.file(tmp_path / name, ".h5")) for name in ("whole", "target"))
    assert whole == target
    with open_run(CELL.file(tmp_path / "target", ".h5")) as run:
        assert run.attrs["target_reached"] == 0


class Killed(Exception):
    """Stands for a kill."""


def test_the_first_evaluation_counts_in_whatever_order_they_come_back(tiny: Callable[..., Path]) -> None:
    federation = Federation.of(tiny(often), "fedbuff")
    whole = federation.engine()
    whole.run()
    correct = {version: sum(shard.correct for shard in shards) for version, shards in whole.evaluated.items()}
    enough = sorted(correct.values())[len(correct) // 2]
    expected = min(version for version, count in correct.items() if count >= enough)
    for attempt in range(5):
        chance = random.Random(attempt)
        checkpoint = None
        for kill_at in (2, 5, None):

            def pulse(engine: Engine, kill_at: int | None = kill_at) -> None:
                if kill_at is not None and engine.applied >= kill_at:
                    raise Killed

            engine = federation.engine(
                Ranks(federation.training(), chance),
                pulse=pulse,
                is_target=lambda shards: sum(shard.correct for shard in shards) >= enough,
            )
            if checkpoint is not None:
                engine.restore(checkpoint)
            try:
                engine.run()
            except Killed:
                checkpoint = engine.checkpoint()
        assert engine.reached == expected
        for version in engine.evaluated:
            assert engine.evaluated[version] == whole.evaluated[version]


def test_a_target_without_anything_to_measure_is_refused(tiny: Callable[..., Path]) -> None:
    from fedhpc.experiment import load_experiment

    def no_stragglers(settings: dict[str, Any]) -> None:
        with_target(0.5, "straggler_accuracy")(settings)
        del settings["task"]["stragglers"], settings["scenarios"]["domain"]

    with pytest.raises(ExperimentError, match=r"budget.target.metric: no straggler classes; name total_accuracy"):
        load_experiment(tiny(no_stragglers))

    def null(settings: dict[str, Any]) -> None:
        with_target(0.5)(settings)
        settings["task"] = {"kind": "null", "clients": 12, "examples": 3, "stragglers": 2}

    with pytest.raises(ExperimentError, match=r"budget.target: the null task trains nothing"):
        load_experiment(tiny(null))
