"""Law 7: a sweep holds its folder by a lease; what is left of an older one ends before it touches a result."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedhpc import run as run_module
from fedhpc.experiment import Run, load_experiment
from fedhpc.run import run
from fedhpc.store.lease import LeaseHeld, LeaseLost, take_lease
from fedhpc.store.record import RunRecord
from tests.federations import DENSE

CELL = Run("fedavg", "domain", 0)


def test_a_lone_run_keeps_off_a_folder_that_a_sweep_holds(tiny: Callable[..., Path], tmp_path: Path) -> None:
    experiment, folder = load_experiment(tiny()), tmp_path / "results"
    with take_lease(folder) as lease:
        with pytest.raises(LeaseHeld):
            run(experiment, CELL, folder, lease=None, checkpoint_seconds=30)
        assert not CELL.file(folder, ".h5").exists()
        assert run(experiment, CELL, folder, lease=lease.token, checkpoint_seconds=30)
    assert CELL.file(folder, ".h5").exists()


def test_a_run_of_an_older_sweep_does_not_begin(tiny: Callable[..., Path], tmp_path: Path) -> None:
    experiment, folder = load_experiment(tiny()), tmp_path / "results"
    with take_lease(folder) as old:
        pass
    with take_lease(folder), pytest.raises(LeaseLost):
        run(experiment, CELL, folder, lease=old.token, checkpoint_seconds=30)
    assert not CELL.file(folder, ".h5").parent.exists()


@pytest.mark.parametrize("moment", ["checkpoint", "publish"])
def test_a_run_whose_sweep_is_over_neither_saves_nor_publishes(
    tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    experiment, folder = load_experiment(tiny()), tmp_path / "results"
    lease = take_lease(folder)
    at_checkpoint, at_publish = run_module._Files.pulse, run_module._Files.publish

    def pulse(files: run_module._Files, newest: object, checkpoint: object) -> None:
        # Every moment is one at which progress and a checkpoint are due.
        files._next_progress = files._next_checkpoint = 0.0
        if moment == "checkpoint" and newest is not None and newest.version == 2:  # type: ignore[attr-defined]
            lease.release()
        at_checkpoint(files, newest, checkpoint)  # type: ignore[arg-type]

    def publish(files: run_module._Files, record: RunRecord) -> None:
        lease.release()
        at_publish(files, record)

    monkeypatch.setattr(run_module._Files, "pulse", pulse)
    if moment == "publish":
        monkeypatch.setattr(run_module._Files, "publish", publish)
    with pytest.raises(LeaseLost):
        run(experiment, CELL, folder, lease=lease.token, checkpoint_seconds=0.01)
    assert not CELL.file(folder, ".h5").exists()
    saved = CELL.file(folder, ".checkpoint")
    assert saved.exists()  # of before the loss
    if moment == "checkpoint":
        from fedhpc.federation.checkpoint import load_checkpoint

        digest = experiment.settings_of(CELL).digest(_content(experiment))
        found = load_checkpoint(saved, digest, DENSE)
        assert found is not None
        assert found.version < 2


def _content(experiment: object) -> str:
    from fedhpc.data.preparation import fingerprint
    from fedhpc.experiment import Experiment

    assert isinstance(experiment, Experiment)
    assert experiment.task.kind == "classification"
    return fingerprint(experiment.task, experiment.file.parent)
