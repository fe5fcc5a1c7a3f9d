"""The ``fedhpc`` command: what it refuses, in words, and what it does not load."""

import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from typer.testing import CliRunner

from fedhpc.mistakes import ExperimentError
from fedhpc.store.run_file import write_run
from tests.store.records import record, run_path
from tests.workflow.experiments import command, fedhpc, schedules_only, write
from workflow.cli import app, report
from workflow.results_folder import read_experiment

HEAVY = ("torch", "parsl", "mpi4py", "xarray", "matplotlib", "h5py", "numpy", "pydantic")


def test_the_command_itself_loads_nothing_heavy() -> None:
    code = f"import sys, workflow, workflow.cli; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_what_a_rank_loads_before_training_is_neither_parsl_nor_torch(tmp_path: Path) -> None:
    experiment = write(tmp_path / "small.yaml", schedules_only())
    words = command(
        "run", experiment, "--algorithm", "fedavg", "--scenario", "slow", "--trial", 0, "--output", tmp_path
    )
    code = (
        f"import sys; sys.argv = {['fedhpc', *words[3:]]}\n"
        "from workflow.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end\n"
        "assert 'parsl' not in sys.modules and 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert h5py.is_hdf5(tmp_path / "fedavg/slow/trial-0.h5")


def test_unknown_names_are_refused_with_the_nearest(tmp_path: Path) -> None:
    experiment = write(tmp_path / "small.yaml", schedules_only())
    asked = ["--algorithm", "fedbuf", "--scenario", "slo", "--trial", 2, "--output", tmp_path]
    done = fedhpc("run", experiment, *asked)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"{experiment}:",
        "  --algorithm: 'fedbuf' is unknown; did you mean 'fedbuff'?; known: fedavg, fedbuff",
        "  --scenario: 'slo' is unknown; did you mean 'slow'?; known: slow",
        "  --trial: 2 is not there; the experiment's trials are 0 to 1",
    ]
    assert done.stdout == ""


def test_on_many_ranks_one_speaks(tmp_path: Path) -> None:
    experiment = write(tmp_path / "small.yaml", schedules_only())
    asked = ["--algorithm", "fedprox", "--scenario", "slow", "--trial", 0, "--output", tmp_path]
    mpiexec = Path(sys.executable).with_name("mpiexec")
    done = subprocess.run([mpiexec, "-n", "3", *command("run", experiment, *asked)], capture_output=True, text=True)
    assert done.returncode == 2
    assert (done.stdout + done.stderr).count("'fedprox' is unknown") == 1


@pytest.mark.parametrize("words", [("sweep",), ("plan",)])
def test_an_experiments_mistakes_come_at_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    experiment = write(tmp_path / "wrong.yaml", schedules_only(trails=3, evaluation={"every": -1}))
    done = fedhpc(*words, experiment)
    assert done.returncode == 2
    assert "trails: unknown key; did you mean 'trials'?" in done.stderr
    assert "evaluation.every" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = fedhpc("sweep", tmp_path / "absent.yaml")
    assert (done.returncode, done.stderr.count("absent.yaml")) == (2, 1)
    assert "there is no such file" in done.stderr


@pytest.mark.parametrize("what", ["status", "report"])
def test_a_folder_without_a_sweep_is_told_so(tmp_path: Path, what: str) -> None:
    done = fedhpc(what, tmp_path)
    assert done.returncode == 2
    assert "this is no sweep's folder" in done.stderr


def test_what_is_no_sweeps_folder_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(path: Path) -> str:
        with pytest.raises(ExperimentError) as error:
            read_experiment(path)
        return error.value.mistakes[0]

    monkeypatch.chdir(tmp_path)
    assert told(Path("nowhere")).startswith("there is no such folder; ")
    write(tmp_path / "plants.yaml", schedules_only())
    assert told(Path("plants.yaml")).startswith("this is an experiment's file; give its results folder")
    folder = tmp_path / "results" / "plants"
    folder.mkdir(parents=True)
    write(folder / "experiment.yaml", schedules_only())
    assert told(Path("plants.yaml")) == "this is an experiment's file; its results are in results/plants"
    assert told(Path("results")) == "this is no sweep's folder, but holds some; give one of them: plants"
    assert "`fedhpc sweep EXPERIMENT --output FOLDER` writes" in told(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert told(Path("notes.txt")) == "this is a file; give the results folder of a sweep"
    one = record("fedavg", "slow", 0)
    write_run(run_path(tmp_path / "single", one), one)
    assert "open_run" in told(tmp_path / "single")
    write_run(run_path(folder, one), one)
    expected = "this is the experiment's file within its results; give the folder: results/plants"
    assert told(Path("results/plants/experiment.yaml")) == expected


def test_a_target_is_one_that_these_results_have(tmp_path: Path) -> None:
    write(tmp_path / "experiment.yaml", schedules_only())
    one = record("fedavg", "slow", 0)
    write_run(run_path(tmp_path, one), one)
    with pytest.raises(ExperimentError) as error:
        report(tmp_path, "accuracy=0.8")
    told = error.value.mistakes[0]
    assert told == (
        "METRIC: 'accuracy' is unknown; did you mean 'total_accuracy'?; known: total_accuracy, straggler_accuracy, "
        "client_updates, client_trips, server_updates, time"
    )


def test_a_report_without_results_is_told_so(tmp_path: Path) -> None:
    write(tmp_path / "experiment.yaml", schedules_only())
    done = fedhpc("report", tmp_path)
    assert done.returncode == 2
    assert "no finished results here" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_report_has_the_target_and_the_papers_figures_that_were_added_later(tmp_path: Path) -> None:
    experiment = write(tmp_path / "small.yaml", schedules_only(trials=1))
    folder = tmp_path / "results"
    assert fedhpc("sweep", experiment, "--output", folder).returncode == 0
    results = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/*.h5")}
    published = [{"table": "hard_table_22", "scenario": "slow", "rows": {"fedavg": "FedAvg"}}]
    again = fedhpc("sweep", write(experiment, schedules_only(trials=1, published=published)), "--output", folder)
    assert again.returncode == 0, again.stderr
    assert "2 of them finished before" in again.stdout
    assert "638,038" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/*/*.h5")} == results
    told = fedhpc("report", folder, "--target", "client_updates=40").stdout
    assert "638,038" in told
    # Ten rounds of four clients, none of them in vain.
    (line,) = (line.split() for line in (folder / "report/target.txt").read_text().splitlines() if "fedavg" in line)
    assert line[:3] == ["slow", "fedavg", "40"]
    for asked, sentence in (
        (
            "server_update=9",
            "METRIC: 'server_update' is unknown; did you mean 'server_updates'?; known: client_updates",
        ),
        ("time=soon", "VALUE: 'soon' is no number"),
        ("time=nan", "VALUE: 'nan' is no number"),
        ("total_accuracy=85", "VALUE: 85 is no fraction; write total_accuracy=0.9 for 90 %"),
        ("total_accuracy=0.9", "these runs have no total_accuracy"),
    ):
        refused = fedhpc("report", folder, "--target", asked)
        assert refused.returncode == 2
        assert sentence in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_link_that_leads_to_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    result = CliRunner().invoke(app, ["status", str(tmp_path / "loop")])
    assert result.exit_code == 2
    assert "leads to itself" in " ".join(result.output.replace("│", " ").split())
