"""Sweeps for real: Parsl, MPI ranks, HDF5."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import parsl
import pytest
from parsl.config import Config
from parsl.executors.threads import ThreadPoolExecutor

from fedhpc.store import open_experiment
from tests.workflow.experiments import (
    BUFFERED,
    HOPELESS,
    SYNCHRONOUS,
    digits,
    fedhpc,
    processes_of,
    results,
    same_numbers,
    schedules_only,
    started,
    wait_until,
    write,
)
from workflow.dag import failure

ENDLESS = {"client_updates": 200_000_000}


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {name: (path.stat().st_mtime_ns, path.stat().st_ino) for name, path in results(folder).items()}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small experiment that learns, and the folder of its sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    experiment = write(folder / "small.yaml", digits(200))
    done = fedhpc("sweep", experiment, "--output", folder / "results")
    assert done.returncode == 0, done.stdout + done.stderr
    return experiment, folder / "results"


def test_a_sweep_leaves_a_result_a_run_and_a_table(swept: tuple[Path, Path]) -> None:
    _, folder = swept
    assert list(results(folder)) == ["fedavg/slow/trial-0.h5", "fedbuff/slow/trial-0.h5"]
    data = open_experiment(folder)
    assert data.sizes["algorithm"] == 2
    assert (data.client_updates.isel(evaluation=-1) == 200).all()
    assert "fedbuff" in (folder / "report" / "table.txt").read_text()
    assert not list(folder.glob("*/*/*.progress.json"))
    assert not list(folder.glob("*/*/*.checkpoint*"))
    assert not (folder / "lease.json").exists()
    assert list(folder.glob("**/*.h5")) == list(folder.glob("*/*/*.h5"))
    assert not processes_of(folder)


def test_a_sweep_gives_what_its_runs_alone_give(swept: tuple[Path, Path], tmp_path: Path) -> None:
    experiment, folder = swept
    for algorithm in ("fedavg", "fedbuff"):
        asked = ["--algorithm", algorithm, "--scenario", "slow", "--trial", 0, "--output", tmp_path]
        assert fedhpc("run", experiment, *asked).returncode == 0
    assert same_numbers(folder, tmp_path)


def test_the_same_command_again_recomputes_nothing(swept: tuple[Path, Path]) -> None:
    experiment, folder = swept
    before = _stamps(folder)
    logs = sorted((folder / "logs").rglob("*"))
    done = fedhpc("sweep", experiment, "--output", folder)
    assert done.returncode == 0
    assert "2 runs, 2 of them finished before" in done.stdout
    assert "fedbuff" in done.stdout
    assert _stamps(folder) == before
    assert sorted((folder / "logs").rglob("*")) == logs


def test_what_is_added_is_all_that_is_computed(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    first = write(tmp_path / "small.yaml", schedules_only(algorithms={"fedavg": SYNCHRONOUS}))
    assert fedhpc("sweep", first, "--output", folder).returncode == 0
    before = _stamps(folder)
    assert len(before) == 2
    second = write(tmp_path / "small.yaml", schedules_only(trials=3))
    done = fedhpc("sweep", second, "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 runs, 2 of them finished before" in done.stdout
    after = _stamps(folder)
    assert len(after) == 6
    assert {name: after[name] for name in before} == before


def test_one_that_fails_is_named_while_the_others_finish(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    content = schedules_only(trials=1, algorithms={"hopeless": HOPELESS, "fedavg": SYNCHRONOUS, "fedbuff": BUFFERED})
    experiment = write(tmp_path / "small.yaml", content)
    done = fedhpc("sweep", experiment, "--output", folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert list(results(folder)) == ["fedavg/slow/trial-0.h5", "fedbuff/slow/trial-0.h5"]
    assert "hopeless/slow/trial-0 FAILED" in done.stdout
    assert "10,000 deadlines passed" in done.stdout
    assert "1 of 3 runs failed" in done.stdout
    # What was told in words would be told again: the site's one further attempt was not made.
    assert not (folder / "logs/hopeless/slow/trial-0.log.1").exists()
    status = fedhpc("status", folder).stdout
    assert "2 finished, 0 running, 1 failed, 0 waiting" in status
    assert str(folder / "logs/hopeless/slow/trial-0.log") in status
    # The settings may be mended, since nothing came of them.
    mended = {**content, "algorithms": {**content["algorithms"], "hopeless": SYNCHRONOUS}}
    done = fedhpc("sweep", write(experiment, mended), "--output", folder)
    assert (done.returncode, len(results(folder))) == (0, 3)


def test_a_foreign_folder_is_refused_before_anything_starts(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    content = schedules_only(trials=1, algorithms={"fedavg": SYNCHRONOUS})
    assert fedhpc("sweep", write(tmp_path / "small.yaml", content), "--output", folder).returncode == 0
    kept = (folder / "experiment.yaml").read_bytes()
    other = write(tmp_path / "other.yaml", {**content, "seed": 5})
    done = fedhpc("sweep", other, "--output", folder)
    assert done.returncode == 2
    assert "seed: was 0 and is now 5" in done.stderr
    assert (folder / "experiment.yaml").read_bytes() == kept
    assert not (folder / "lease.json").exists()


def test_clients_that_are_too_few_are_told_before_anything_starts(tmp_path: Path) -> None:
    content = schedules_only(algorithms={"wide": {**SYNCHRONOUS, "cohort": 21}})
    done = fedhpc("sweep", write(tmp_path / "small.yaml", content), "--output", tmp_path / "results")
    assert done.returncode == 2
    assert "algorithms.wide.cohort: 21" in done.stderr
    assert not (tmp_path / "results" / "logs").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_sweep_is_refused_and_the_first_stops_when_asked(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "results"
    content = schedules_only(budget=ENDLESS, evaluation={"every": 10_000_000})
    experiment = write(tmp_path / "long.yaml", content)
    with started("sweep", experiment, "--output", folder, log=tmp_path / "log") as first:
        wait_until(lambda: len(processes_of(folder, "-m workflow run")) >= 2)
        second = fedhpc("sweep", experiment, "--output", folder)
        assert second.returncode == 2
        assert f"process {first.pid}" in second.stderr
        assert "running" in fedhpc("status", folder).stdout
        first.send_signal(number)
        assert first.wait(60) == 128 + number
    told = (tmp_path / "log").read_text()
    assert "Stopped." in told
    assert "Traceback" not in told
    assert not processes_of(folder)
    assert not (folder / "lease.json").exists()


USERS_PROGRAM = """
import sys
import parsl
from parsl.config import Config
from parsl.executors.threads import ThreadPoolExecutor
import workflow

parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=2)], run_dir=sys.argv[2] + "-parsl"))

@parsl.python_app
def lines(report):
    return len(report.splitlines())

under_way = workflow.sweep(sys.argv[1], folder=sys.argv[2])
print(sorted(str(run) for run in under_way.runs))
for run, future in under_way.runs.items():
    print(run, type(future.exception()).__name__)
print(lines(under_way.report).result() > 1)
again = workflow.sweep(sys.argv[1], folder=sys.argv[2])
print(len(again.finished), sorted(str(run) for run in again.runs))
again.report.result()
parsl.dfk().cleanup()
"""


def test_a_sweep_within_a_persons_own_parsl_program(tmp_path: Path) -> None:
    content = schedules_only(trials=1, algorithms={"fedavg": SYNCHRONOUS, "hopeless": HOPELESS})
    experiment = write(tmp_path / "small.yaml", content)
    program = tmp_path / "program.py"
    program.write_text(USERS_PROGRAM)
    done = subprocess.run(
        [sys.executable, program, experiment, tmp_path / "results"],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['fedavg/slow/trial-0', 'hopeless/slow/trial-0']",
        "fedavg/slow/trial-0 NoneType",
        "hopeless/slow/trial-0 RunFailed",
        "True",
        "1 ['hopeless/slow/trial-0']",
    ]
    assert not (tmp_path / "results" / "lease.json").exists()


def test_a_results_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "it's (a) b; $HOME *"
    done = fedhpc("sweep", write(tmp_path / "null.yaml", schedules_only()), "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(folder)


def test_a_lost_interchange_ends_the_sweep_and_the_same_command_goes_on(tmp_path: Path) -> None:
    experiment, folder = write(tmp_path / "small.yaml", digits(200)), tmp_path / "results"
    with started("sweep", experiment, "--output", folder, log=tmp_path / "log") as driver:

        def interchange() -> list[int]:
            threads = Path(f"/proc/{driver.pid}/task").glob("*/children")
            children = [int(child) for thread in threads for child in thread.read_text().split()]
            return [child for child in children if b"interchange" in Path(f"/proc/{child}/cmdline").read_bytes()]

        wait_until(lambda: any(folder.rglob("*.progress.json")) and bool(interchange()), 60)
        os.kill(interchange()[0], signal.SIGKILL)
        assert driver.wait(60) == 1
    assert "the same command goes on" in (tmp_path / "log").read_text()
    done = fedhpc("sweep", experiment, "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_failure_is_told_by_its_cause(tmp_path: Path) -> None:
    @parsl.python_app
    def data() -> None:
        raise OSError("the disk is full")

    @parsl.python_app
    def run(data: object) -> None:
        raise AssertionError("never begins")

    config = Config(executors=[ThreadPoolExecutor(max_threads=1)], run_dir=str(tmp_path), usage_tracking=0)
    with parsl.load(config):
        future = run(data())
        future.exception()
    assert isinstance(failure(future), OSError)
    assert str(failure(future)) == "the disk is full"
