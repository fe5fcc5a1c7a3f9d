"""Law 5: a result appears complete and by a rename; it is never computed again while its settings' hash matches."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedhpc import run as run_module
from fedhpc.experiment import Run, load_experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.run import run
from fedhpc.store import open_experiment, open_run
from fedhpc.store.run_file import finished_digest

CELL = Run("fedbuff", "domain", 0)


def live(file: Path, folder: Path, cell: Run = CELL) -> bool:
    return run(load_experiment(file), cell, folder, lease=None, checkpoint_seconds=0.01)


def test_a_result_carries_what_it_came_from(tiny: Callable[..., Path], tmp_path: Path) -> None:
    assert live(tiny(), tmp_path)
    result = open_run(CELL.file(tmp_path, ".h5"))
    assert {"digest", "settings", "fedhpc_version", "library_versions", "python_version", "host", "ranks"} <= set(
        result.attrs
    )
    assert json.loads(result.attrs["class_names"]) == ["0", "1", "2", "3"]
    assert json.loads(result.attrs["client_names"]) == [str(client) for client in range(12)]
    assert "buffer_size: 3" in result.attrs["settings"]
    assert result.attrs["experiment"] == "tiny"
    assert (result.algorithm.item(), result.scenario.item(), result.trial.item(), result.seed.item()) == (
        "fedbuff",
        "domain",
        0,
        0,
    )
    assert result.client_updates.values.tolist() == [0, 21, 42, 60]  # buffers of three, evaluated every twenty
    assert result.straggler.values.sum() == 3
    left = sorted(file.name for file in CELL.file(tmp_path, ".h5").parent.iterdir())
    assert left == ["trial-0.h5"]


def test_a_finished_run_is_not_computed_again(tiny: Callable[..., Path], tmp_path: Path) -> None:
    file = tiny()
    assert live(file, tmp_path)
    result = CELL.file(tmp_path, ".h5")
    before = result.stat()

    def more(settings: dict[str, Any]) -> None:
        settings["trials"] = 9
        settings["algorithms"]["another"] = {"scheduler": "synchronous", "cohort": 2}

    assert not live(tiny(more), tmp_path)
    assert (result.stat().st_ino, result.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    # The result of other settings is not overwritten in silence.
    with pytest.raises(ExperimentError, match="the result of other settings"):
        live(tiny(lambda settings: settings["algorithms"]["fedbuff"].update(concurrency=7)), tmp_path)
    assert result.stat().st_ino == before.st_ino


def test_nothing_of_an_unfinished_run_is_taken_for_a_result(
    tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tiny()
    live(file, tmp_path, Run("fedavg", "domain", 0))

    class PowerCut(BaseException):
        pass

    def cut(source: object, target: object) -> None:
        raise PowerCut

    # Everything is computed and written, and the power fails before the rename.
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "write_run", lambda path, record: cut(path, record))
        with pytest.raises(PowerCut):
            live(file, tmp_path)
    result = CELL.file(tmp_path, ".h5")
    assert finished_digest(result) is None
    assert not result.exists()
    # A half-written temporary file, as a kill leaves it, is nothing either.
    (result.parent / f"trial-0.h5.tmp.host.{os.getpid()}").write_bytes(b"\x89HDF\r\n\x1a\n half")
    assert open_experiment(tmp_path).algorithm.values.tolist() == ["fedavg"]
    assert live(file, tmp_path)
    assert set(open_experiment(tmp_path).algorithm.values) == {"fedavg", "fedbuff"}
