"""Tune, then the trials: real sweeps, against the same points run by hand as plain experiments."""

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpc.clients.steps.step_choice import StepWishes
from fedhpc.experiment import TUNING_TRIAL, Run, load_experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.run import run
from fedhpc.store import open_experiment, open_run
from fedhpc.store.lease import LeaseLost
from tests.workflow.experiments import (
    BUFFERED,
    HOPELESS,
    digits,
    fedhpc,
    kill,
    numbers,
    processes_of,
    results,
    started,
    wait_until,
    write,
)
from workflow import apps, tuning
from workflow.results_folder import digests, recorded_choices, refuse_foreign
from workflow.sites import Site
from workflow.status import status_lines

CLIENT, SERVER = "client.optimizer.rate", "server_optimizer.rate"
# The first point of all is sure to diverge: float32 holds no 1e60.
GRID = {CLIENT: [1e30, 0.1], SERVER: [1e30, 0.5]}
PAIR = ("fedbuff", "slow")
TRIAL = Run(*PAIR, 0)


def content(grid: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """FedBuff is tuned by a shorter budget than its trial's; FedAvg is not tuned."""
    task = {**digits(40)["task"], "model": {"name": "logistic"}}
    block = {"metric": "total_accuracy", "grid": {"fedbuff": grid or GRID}, "budget": {"client_updates": 20}}
    return {**digits(40), "task": task, "tuning": block, **changes}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # One rank and one way to compute a step, so that different folders hold the same bytes.
    wishes = {"ranks_per_run": 1, "retries": 0, "step": {"form": "plain"}}
    return write(tmp_path_factory.mktemp("site") / "alone.yaml", wishes)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, site: Path) -> tuple[Path, Path]:
    """The experiment, and the folder of its sweep."""
    folder = tmp_path_factory.mktemp("tuned")
    experiment = write(folder / "small.yaml", content())
    done = fedhpc("sweep", experiment, "--site", site, "--output", folder / "results")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 runs, 0 of them finished before; 4 of them tune" in done.stdout
    return experiment, folder / "results"


@pytest.fixture
def folder(tuned: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of the swept folder, to change."""
    shutil.copytree(tuned[1], tmp_path / "results")
    return tmp_path / "results"


def sweep(file: Path, site: Path, folder: Path) -> str:
    done = fedhpc("sweep", file, "--site", site, "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tuning_results(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.glob("tuning/*/*/*.h5"))}


def stamps(files: dict[str, Path]) -> dict[str, tuple[int, int]]:
    return {name: (path.stat().st_mtime_ns, path.stat().st_ino) for name, path in files.items()}


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "report" / "tuning.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def by_hand(folder: Path, client_rate: float, server_rate: float, updates: int, trial: int) -> Path:
    """The result of one run of a plain experiment that has these values written in it."""
    settings = content(budget={"client_updates": updates})
    del settings["tuning"]
    settings["algorithms"]["fedbuff"] = {
        **BUFFERED,
        "client": {"optimizer": {"rate": client_rate}},
        "server_optimizer": {"rate": server_rate},
    }
    experiment = load_experiment(write(folder / "plain.yaml", settings))
    own = folder / f"{client_rate}-{server_rate}"
    run(experiment, Run(*PAIR, trial), own, lease=None, checkpoint_seconds=30, step=StepWishes(form="plain"))
    return Run(*PAIR, trial).file(own, ".h5")


def test_the_choice_is_the_best_of_the_points_run_by_hand(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    _, folder = tuned
    found = {
        (client, server): by_hand(tmp_path, client, server, 20, TUNING_TRIAL)
        for client in GRID[CLIENT]
        for server in GRID[SERVER]
    }
    last = {values: open_run(file).isel(evaluation=-1) for values, file in found.items()}
    rows = {(float(row[CLIENT]), float(row[SERVER])): row for row in table(folder)}
    assert list(rows) == list(found)
    for values, row in rows.items():
        assert float(row["total_accuracy"]) == last[values].total_accuracy.item()
        assert numbers(folder / row["file"]) == numbers(found[values])
    diverged = {values for values, run in last.items() if not abs(run.loss.item()) < float("inf")}
    assert (1e30, 1e30) in diverged
    assert {values for values, row in rows.items() if row["diverged"] == "1"} == diverged
    best = max((values for values in found if values not in diverged), key=lambda each: last[each].total_accuracy)
    assert [values for values, row in rows.items() if row["chosen"] == "1"] == [best]
    assert json.loads((folder / "tuning/fedbuff/slow/choice.json").read_text())["values"] == {
        CLIENT: best[0],
        SERVER: best[1],
    }
    # The trial is that of a plain experiment with these values, and another one than the tuning run.
    trial = TRIAL.file(folder, ".h5")
    (tmp_path / "trial").mkdir()
    assert numbers(trial) == numbers(by_hand(tmp_path / "trial", *best, 40, 0))
    settings = yaml.safe_load(open_run(trial).attrs["settings"])["algorithm"]
    assert (settings["client"]["optimizer"]["rate"], settings["server_optimizer"]["rate"]) == best


def test_tuning_runs_are_no_trials(tuned: tuple[Path, Path]) -> None:
    _, folder = tuned
    assert list(results(folder)) == ["fedavg/slow/trial-0.h5", "fedbuff/slow/trial-0.h5"]
    assert open_experiment(folder).trial.values.tolist() == [0]
    assert len(tuning_results(folder)) == 4
    assert len(list(folder.glob("**/*.h5"))) == 6
    for file in tuning_results(folder).values():
        assert open_run(file).trial.item() == 100_000


def test_the_choice_is_told(tuned: tuple[Path, Path]) -> None:
    _, folder = tuned
    (chosen,) = (row for row in table(folder) if row["chosen"] == "1")
    words = f"fedbuff/slow  {CLIENT}={chosen[CLIENT]},{SERVER}={chosen[SERVER]}  (total_accuracy 0."
    assert words in tuning.write_reports(folder)
    assert words in (folder / "report" / "tuning.txt").read_text()
    summary, _, tuned_line = status_lines(folder)
    assert summary.startswith("6 runs: 6 finished")
    assert words in tuned_line


def test_the_same_command_again_recomputes_nothing(tuned: tuple[Path, Path], site: Path) -> None:
    experiment, folder = tuned
    before = stamps(results(folder)), stamps(tuning_results(folder))
    assert "6 runs, 6 of them finished before" in sweep(experiment, site, folder)
    assert (stamps(results(folder)), stamps(tuning_results(folder))) == before


def test_a_changed_grid(tuned: tuple[Path, Path], folder: Path, tmp_path: Path, site: Path) -> None:
    trials, tried = stamps(results(folder)), stamps(tuning_results(folder))
    (winner,) = (row for row in table(folder) if row["chosen"] == "1")
    # A value by which next to nothing is learned: its points run, and nothing else.
    wider = content({CLIENT: [1e30, 1e-6, 0.1], SERVER: [0.5, 1e30]})
    told = sweep(write(tmp_path / "small.yaml", wider), site, folder)
    assert "8 runs, 5 of them finished before; 6 of them tune" in told
    assert stamps(results(folder)) == trials
    after = stamps(tuning_results(folder))
    assert len(after) == 6
    assert {name: after[name] for name in tried} == tried
    assert [row for row in table(folder) if row["chosen"] == "1"] == [winner]
    # Without the winner another point wins: its trial runs, and the former one is kept.
    narrower = content({CLIENT: [1e-6], SERVER: [0.5]})
    assert "3 runs, 2 of them finished before" in sweep(write(tmp_path / "small.yaml", narrower), site, folder)
    assert "rate: 1.0e-06" in open_run(TRIAL.file(folder, ".h5")).attrs["settings"]
    assert stamps(results(folder))["fedavg/slow/trial-0.h5"] == trials["fedavg/slow/trial-0.h5"]
    assert trials["fedbuff/slow/trial-0.h5"] in stamps(tuning_results(folder)).values()
    assert len(table(folder)) == 1
    # With the first grid again everything is there.
    assert "6 runs, 6 of them finished before" in sweep(tuned[0], site, folder)
    assert stamps(results(folder)) == trials


@pytest.mark.parametrize("cut", ["write_choice", "_move"])
def test_a_power_cut_while_another_point_wins(
    tuned: tuple[Path, Path], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Trials that leave do so before the choice changes, and those that return come after it."""

    class PowerCut(BaseException):
        pass

    def fails(*_: object) -> None:
        raise PowerCut

    before = stamps(results(folder))
    (winner,) = (float(row[CLIENT]) for row in table(folder) if row["chosen"] == "1")
    without = content({CLIENT: [rate for rate in GRID[CLIENT] if rate != winner], SERVER: GRID[SERVER]})
    for settings, kept in ((without, 1), (content(), 2)):
        experiment = load_experiment(write(tmp_path / "small.yaml", settings))
        with monkeypatch.context() as patched:
            patched.setattr(tuning, cut, fails)
            with pytest.raises(PowerCut):
                tuning.settle(folder, experiment, PAIR)
        refuse_foreign(folder, experiment, digests(experiment, recorded_choices(folder, experiment)))
        tuning.settle(folder, experiment, PAIR)
        assert len(results(folder)) == kept
    assert stamps(results(folder)) == before


@pytest.fixture
def processes_end(tmp_path: Path) -> Iterator[None]:
    yield
    for process in processes_of(tmp_path / "killed"):
        kill(process)


@pytest.mark.usefixtures("processes_end")
def test_killed_and_gone_on_with(tuned: tuple[Path, Path], site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    settings = content({CLIENT: [0.1], SERVER: [1e30, 0.5]}, algorithms={"fedbuff": BUFFERED})
    experiment = write(tmp_path / "small.yaml", settings)
    with started("sweep", experiment, "--site", site, "--output", folder, log=tmp_path / "log") as driver:
        wait_until(lambda: tuning_results(folder))
        driver.kill()
    sweep(experiment, site, folder)
    assert not processes_of(folder)
    # Undisturbed, these points were among others.
    for name, path in tuning_results(folder).items():
        assert numbers(path) == numbers(tuned[1] / name)
    assert [row["file"] for row in table(folder)] == [row["file"] for row in table(tuned[1]) if row[CLIENT] == "0.1"]
    (chosen,) = (float(row[SERVER]) for row in table(folder) if row["chosen"] == "1")
    assert numbers(TRIAL.file(folder, ".h5")) == numbers(by_hand(tmp_path, 0.1, chosen, 40, 0))
    assert not list(folder.glob("**/*.tmp.*"))


def test_a_pair_waits_for_its_own_tuning_only(tmp_path: Path, site: Path) -> None:
    """One algorithm's points all fail, and the other's trial is finished all the same."""
    settings = content(
        algorithms={"hopeless": HOPELESS, "fedbuff": BUFFERED},
        tuning={"metric": "loss", "grid": {"hopeless": {SERVER: [1.0]}, "fedbuff": {SERVER: [1.0]}}},
    )
    folder = tmp_path / "results"
    done = fedhpc("sweep", write(tmp_path / "small.yaml", settings), "--site", site, "--output", folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert list(results(folder)) == ["fedbuff/slow/trial-0.h5"]
    assert done.stdout.count("10,000 deadlines passed") == 1
    assert f"hopeless/slow/trial-0 waited in vain for hopeless/slow/{SERVER}=1.0" in done.stdout
    assert "2 of 4 runs failed" in done.stdout
    status = "\n".join(status_lines(folder))
    assert "2 finished, 0 running, 1 failed, 1 waiting" in status
    assert "tuned    fedbuff/slow" in status
    assert "tuned    hopeless" not in status


def test_a_run_alone_uses_the_folders_choice(tuned: tuple[Path, Path], folder: Path, tmp_path: Path) -> None:
    experiment, _ = tuned
    asked = ["--algorithm", "fedbuff", "--scenario", "slow", "--step", "{form: plain}"]
    before = numbers(TRIAL.file(folder, ".h5"))
    TRIAL.file(folder, ".h5").unlink()
    assert fedhpc("run", experiment, *asked, "--trial", 0, "--output", folder).returncode == 0
    assert numbers(TRIAL.file(folder, ".h5")) == before
    nowhere = fedhpc("run", experiment, *asked, "--trial", 0, "--output", tmp_path / "new")
    assert nowhere.returncode == 2
    assert nowhere.stderr.splitlines()[1] == (
        f"  tuning.grid.fedbuff: nothing is chosen yet for scenario slow in {tmp_path}/new; tune first, with "
        f"`fedhpc sweep {experiment} --output {tmp_path}/new`"
    )
    # Nor is another grid's choice its own.
    other = write(tmp_path / "other.yaml", content({CLIENT: [0.1, 0.2]}))
    assert "nothing is chosen yet" in fedhpc("run", other, *asked, "--trial", 0, "--output", folder).stderr


def test_a_point_alone(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    experiment, folder = tuned
    asked = ["--algorithm", "fedbuff", "--scenario", "slow", "--step", "{form: plain}", "--output", tmp_path]
    point = f"{CLIENT}=0.1,{SERVER}=0.5"
    assert fedhpc("run", experiment, *asked, "--point", point).returncode == 0
    ((name, file),) = tuning_results(tmp_path).items()
    assert numbers(file) == numbers(folder / name)
    unknown = fedhpc("run", experiment, *asked, "--point", f"{CLIENT}=0.1,{SERVER}=0.4")
    assert f"did you mean '{point}'?" in unknown.stderr
    assert "one of them and not both" in fedhpc("run", experiment, *asked).stderr


def test_without_its_sweeps_lease_tuning_touches_nothing(tuned: tuple[Path, Path], folder: Path) -> None:
    experiment = load_experiment(tuned[0])
    (first, *_) = experiment.tuning_runs(PAIR)
    first.file(folder, ".h5").unlink()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    site = Site.model_validate({"ranks_per_run": 1})
    with pytest.raises(LeaseLost):
        apps.train(folder, first, digests(experiment)[first], site, "a token of long ago")
    with pytest.raises(LeaseLost):
        apps.choose(folder, PAIR, "a token of long ago")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_results_that_were_not_tuned_here_are_refused(folder: Path, tmp_path: Path) -> None:
    def refusal(settings: dict[str, Any]) -> list[str]:
        experiment = load_experiment(write(tmp_path / "other.yaml", settings))
        with pytest.raises(ExperimentError) as refused:
            refuse_foreign(folder, experiment, digests(experiment))
        return refused.value.mistakes

    assert refusal(content())[0] == (
        "tuning.grid.fedbuff: fedbuff/slow/trial-0 is there already, and was not tuned in this folder"
    )
    untuned = content()
    del untuned["tuning"]
    assert refusal(untuned)[0].startswith("tuning.grid.fedbuff: was {")


def test_the_plan_counts_and_costs_the_tuning_runs(tmp_path: Path) -> None:
    done = fedhpc("plan", write(tmp_path / "small.yaml", content()))
    assert done.returncode == 0, done.stderr
    assert "4 tuning runs, then 2 algorithms x 1 scenario x 1 trial = 2 runs" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if "slow" in line]
    # Four points of 20 client updates, in buffers of two; then trials of 40.
    assert [(row[0], row[2], row[4]) for row in rows] == [
        ("fedbuff", "80", "40"),
        ("fedavg", "40", "10"),
        ("fedbuff", "40", "20"),
    ]
    assert "for all 6 runs" in done.stdout


@pytest.mark.parametrize("command", ["plan", "sweep"])
def test_points_that_the_clients_cannot_serve_are_refused(tmp_path: Path, command: str) -> None:
    grid = {"concurrency": [4, 30], "refill": ["immediately", "at_server_update"]}
    file = write(tmp_path / "small.yaml", content(grid))
    output = ["--output", tmp_path / "results"] if command == "sweep" else []
    done = fedhpc(command, file, *output)
    assert done.returncode == 2
    assert done.stderr.count("tuning.grid.fedbuff.concurrency: 30") == 2  # once with a waiting buffer, once without
    assert not list(tmp_path.rglob("*.h5"))
