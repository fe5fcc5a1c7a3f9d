"""A module of one's own, from its file to the results: README's example, on one rank and on two, and in a sweep from
another folder."""

import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from fedhpc.data.preparation import fingerprint_of, prepared_data
from fedhpc.experiment import Run, load_experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.store.run_file import finished_digest
from tests.mpi import mpi, numbers, run_command
from tests.workflow.experiments import BUFFERED, command, digits, same_numbers, write
from workflow.plan import print_plan
from workflow.results_folder import read_experiment
from workflow.sites import load_site

MODULE = """
import math

from torch import nn

from sizes import WIDTH


def small_net(shape, classes, dropout=0.25):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), WIDTH),
        nn.BatchNorm1d(WIDTH),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(WIDTH, classes),
    )
"""
CELL = Run("fedbuff", "slow", 0)


def own_experiment(folder: Path, **changes: Any) -> Path:
    """Writes the module, its neighbour and the experiment, and returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my_models.py").write_text(MODULE)
    (folder / "sizes.py").write_text("WIDTH = 24\n")
    settings = digits(40, algorithms={"fedbuff": BUFFERED})
    settings["task"]["model"] = {"name": "own", "callable": "my_models:small_net", "arguments": {"dropout": 0.5}}
    settings["task"]["model"] |= changes.pop("model", {})
    return write(folder / "own.yaml", settings | changes)


def test_the_same_bytes_on_1_and_2_ranks_and_in_a_sweep_from_another_folder(tmp_path: Path) -> None:
    file, elsewhere = own_experiment(tmp_path / "mine"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    for ranks in (1, 2):
        finished = mpi(ranks, run_command(file, CELL, tmp_path / str(ranks)))
        assert finished.returncode == 0, finished.stderr
    found = [numbers(CELL.file(tmp_path / str(ranks), ".h5")) for ranks in (1, 2)]
    assert found[0] == found[1]
    words = command("sweep", Path("..") / "mine" / "own.yaml", "--output", tmp_path / "swept")
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, cwd=elsewhere)
    assert done.returncode == 0, done.stdout + done.stderr
    assert same_numbers(tmp_path / "swept", tmp_path / "2")
    kept = read_experiment(tmp_path / "swept").task.model
    assert kept.file == tmp_path / "mine" / "my_models.py"
    # Where it lies is no part of a result, what it holds is; what it imports from beside it, too.
    moved = own_experiment(tmp_path / "moved")
    assert _digest(moved) == _digest(file) == finished_digest(CELL.file(tmp_path / "swept", ".h5"))
    (tmp_path / "moved" / "sizes.py").write_text("WIDTH = 25\n")
    assert _digest(moved) != _digest(file)


def _digest(file: Path) -> str:
    experiment = load_experiment(file)
    return experiment.settings_of(CELL).digest(fingerprint_of(experiment))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"arguments": {"dropout": 0.1}}, "nn.Dropout(0.1) is no multiple of 1/256"),
        ({"arguments": {"width": 3}}, "unexpected keyword argument 'width'"),
        ({"callable": "my_models:other"}, "my_models has no other"),
    ],
)
def test_plan_tells_what_is_wrong_with_it(tmp_path: Path, model: dict[str, Any], told: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        print_plan(load_experiment(own_experiment(tmp_path, model=model)), load_site(), Console(file=StringIO()))
    (sentence,) = caught.value.mistakes
    assert told in sentence


def test_a_module_that_is_not_there_is_told_as_the_file_is_read(tmp_path: Path) -> None:
    file = own_experiment(tmp_path, model={"callable": "your_models:net"})
    with pytest.raises(ExperimentError, match=r"no module your_models; put your_models\.py into") as caught:
        load_experiment(file)
    assert caught.value.path == file


def test_what_running_statistics_have_no_rule_for_is_told_of_it_too(tmp_path: Path) -> None:
    fare = {"scheduler": "fare_dust", "cohort": 2, "histories": 1, "client": {"distillation": 0.3}}
    file = own_experiment(tmp_path, algorithms={"fare": fare})
    with pytest.raises(ExperimentError, match="own keeps running statistics, which late updates"):
        prepared_data(load_experiment(file), tmp_path)
    (tmp_path / "my_models.py").write_text(MODULE.replace("        nn.BatchNorm1d(WIDTH),\n", ""))
    assert prepared_data(load_experiment(file), tmp_path)


def test_reading_the_experiment_imports_neither_torch_nor_the_module(tmp_path: Path) -> None:
    file = own_experiment(tmp_path)
    (tmp_path / "my_models.py").write_text("raise SystemExit('imported')")
    code = (
        "import sys; from pathlib import Path; from fedhpc.experiment import load_experiment; "
        "load_experiment(Path(sys.argv[1])); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(file)]).returncode == 0
    assert "callable: my_models:small_net" in yaml.safe_dump(load_experiment(file).model_dump(mode="json"))


def test_a_module_that_is_edited_in_mid_sweep_is_refused(tmp_path: Path) -> None:
    """The sweep knows its results by what the file held at its start: no table mixes the two."""
    file = own_experiment(tmp_path)
    known = _digest(file)
    (tmp_path / "sizes.py").write_text("WIDTH = 25\n")
    run = command("run", file, *CELL.options(), "--output", tmp_path / "results", "--digest", known)
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert (
        "a file that this run reads (data, a scenario's, a module of one's own) has changed since the sweep"
        in done.stderr
    )
    assert not CELL.file(tmp_path / "results", ".h5").exists()
