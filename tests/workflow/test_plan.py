"""``fedhpc plan``: counts that can be worked out by hand."""

import io
import pickle
import re
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedhpc.data.preparation import population_of
from fedhpc.experiment import load_experiment
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.federation.updates import ScheduleError
from fedhpc.mistakes import ExperimentError
from tests import sentences
from tests.workflow.experiments import BUFFERED, SYNCHRONOUS, digits, fedhpc, schedules_only, write
from workflow import plan
from workflow.sites import Site, load_site

QUICKSTART = Path(__file__).parents[2] / "configs" / "experiments" / "quickstart.yaml"


def test_the_quickstarts_plan() -> None:
    done = fedhpc("plan", QUICKSTART)
    assert done.returncode == 0, done.stderr
    assert "4 algorithms x 2 scenarios x 3 trials = 24 runs, 2 ranks each" in done.stdout
    rows = {tuple(line.split()[:2]): line.split() for line in done.stdout.splitlines() if "per_" in line}
    assert len(rows) == 8
    # Rounds of 10, and buffers of 5.
    updates = load_experiment(QUICKSTART).budget.client_updates
    assert updates is not None
    assert rows["fedavg_over_selection", "per_domain"][2:5:2] == [f"{updates:,}", f"{updates // 10:,}"]
    assert rows["fedbuff", "per_example"][2:5:2] == [f"{updates:,}", f"{updates // 5:,}"]


def test_a_schedules_cost_by_hand(tmp_path: Path) -> None:
    """20 rounds of 4 clients with 10 examples in batches of 5: two steps each; every client takes 3 + 10 * 2 + 1 s."""
    scenario = {
        "communication": {"distribution": "constant", "value": 3},
        "per_example": {"distribution": "constant", "value": 2},
        "overhead": {"distribution": "constant", "value": 1},
    }
    content = schedules_only(algorithms={"fedavg": SYNCHRONOUS}, scenarios={"even": scenario})
    experiment = load_experiment(write(tmp_path / "small.yaml", content))
    (cost,) = plan.estimate(experiment, population_of(experiment.task, None), None, Site())
    assert (cost.server_updates, cost.client_updates, cost.local_steps) == (20, 80, 160)
    assert cost.virtual_seconds == pytest.approx(20 * 24)
    assert (cost.core_seconds, cost.exact) == (0, True)


def test_a_long_schedule_is_played_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_SECONDS_TO_PLAY", 0.3)
    content = schedules_only(
        algorithms={"fedavg": SYNCHRONOUS}, budget={"client_updates": 40_000_000}, evaluation={"every": 1e6}
    )
    experiment = load_experiment(write(tmp_path / "long.yaml", content))
    before = time.monotonic()
    (cost,) = plan.estimate(experiment, population_of(experiment.task, None), None, Site())
    assert time.monotonic() - before < 30
    assert not cost.exact
    assert cost.client_updates == pytest.approx(40_000_000)
    assert cost.server_updates == pytest.approx(10_000_000)
    assert cost.local_steps == pytest.approx(80_000_000)


def test_data_that_are_still_to_be_fetched_are_a_warning(tmp_path: Path) -> None:
    task = {
        "kind": "classification",
        "data": {"source": "file", "path": "absent.csv", "features": "*", "label": "y", "held_out": 0.2},
        "partition": {"kind": "iid", "clients": 5},
        "model": {"name": "mlp", "hidden": [4]},
    }
    experiment = write(tmp_path / "own.yaml", schedules_only(task=task))
    done = fedhpc("plan", experiment)
    assert done.returncode == 0
    assert "= 4 runs" in done.stdout
    assert "warning" in done.stdout
    assert "absent.csv" in done.stdout
    refused = fedhpc("sweep", experiment, "--output", tmp_path / "out")
    assert refused.returncode == 2
    assert "absent.csv" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_an_algorithm_that_the_clients_cannot_serve_is_refused(tmp_path: Path) -> None:
    content = schedules_only(algorithms={"wide": {**SYNCHRONOUS, "cohort": 21}})
    done = fedhpc("plan", write(tmp_path / "small.yaml", content))
    assert done.returncode == 2
    assert "algorithms.wide.cohort: 21" in done.stderr


def test_the_privacy_that_is_promised_is_told(tmp_path: Path) -> None:
    content = schedules_only(trials=1)
    algorithm = {**BUFFERED, "client": {"clip": 0.5}, "weighting": "uniform"}
    content["algorithms"] = {
        "given": {**algorithm, "privacy": {"mechanism": "dp_ftrl", "delta": 1e-5, "noise_multiplier": 3.0}},
        "wished": {**algorithm, "privacy": {"mechanism": "dp_ftrl", "delta": 1e-5, "epsilon": 7.0}},
    }
    planned = fedhpc("plan", write(tmp_path / "small.yaml", content))
    assert planned.returncode == 0, planned.stderr
    assert "given/slow: dp_ftrl with a noise multiplier of 3 spends epsilon " in planned.stdout
    wished = r"wished/slow: dp_ftrl with a noise multiplier of [\d.]+ spends epsilon 7 at delta 1e-05"
    assert re.search(wished, planned.stdout)


def test_the_partition_is_told_and_drawn(tmp_path: Path) -> None:
    content = digits(40)
    own = {"kind": "class_partition", "clients": 6, "least_classes": 2, "most_classes": 2, "each_trial": True}
    content["task"] = {**content["task"], "partition": own, "stragglers": None}
    experiment = write(tmp_path / "small.yaml", content)
    done = fedhpc("plan", experiment, "--draw", tmp_path / "who.png")
    assert done.returncode == 0, done.stderr
    told = r"partition class_partition \(least_classes 2, most_classes 2, mean 10, std 3\): 6 clients with \d+ to "
    told += r"\d+ training examples \(median \d+\) of 2 classes; every trial has one of its own, and this is trial 0\n"
    assert re.search(told, done.stdout), done.stdout
    assert f"the partition is drawn in {tmp_path / 'who.png'}" in done.stdout
    assert (tmp_path / "who.png").read_bytes().startswith(b"\x89PNG")
    assert "\nstragglers: " not in done.stdout
    content["task"]["stragglers"] = {"classes": [0, 1], "clients": 2}
    told = r"\nstragglers: 2 of 6 clients; \d+ training examples of 0, 1 are taken away from the others\n"
    assert re.search(told, fedhpc("plan", write(tmp_path / "two.yaml", content)).stdout)
    assert "partition" not in fedhpc("plan", write(tmp_path / "null.yaml", schedules_only())).stdout


def test_what_cannot_be_drawn_is_told_at_once(tmp_path: Path) -> None:
    null = write(tmp_path / "null.yaml", schedules_only())
    done = fedhpc("plan", null, "--draw", tmp_path / "absent" / "who.jpg")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "--draw:",
        "  the null task has no data, so that there is no partition to draw; leave --draw out",
        "  'who.jpg' is no picture that can be drawn; end its name in .png, .pdf, .svg",
        f"  there is no folder {tmp_path / 'absent'}; make it first",
    ]
    content = digits(40)
    absent = {"source": "file", "path": "absent.csv", "features": "*", "label": "y", "held_out": 0.2}
    content["task"] = {**content["task"], "data": absent}
    done = fedhpc("plan", write(tmp_path / "own.yaml", content), "--draw", tmp_path / "who.png")
    assert done.returncode == 2
    assert "warning: without the data there is no estimate." in done.stdout
    assert "there is no file 'absent.csv'" in done.stdout
    assert done.stderr == "--draw:\n  without the data there is nothing to draw\n"
    assert not (tmp_path / "who.png").exists()


def test_what_devices_are_like_is_told(tmp_path: Path) -> None:
    # Ten examples in batches of five: two steps of 3 * 5 * 100 / 1000 = 1.5 s, and 2 * 800 / 200 = 8 s of transfer.
    (tmp_path / "capacity.pkl").write_bytes(pickle.dumps({1: {"computation": 100, "communication": 200}}))
    phones = {"devices": {"source": "fedscale", "path": "capacity.pkl", "model_kbit": 800}}
    faster = {"devices": {**phones["devices"], "faster_percent": 100}}
    content = schedules_only(scenarios={"hs1": phones, "hs4": faster})
    content["algorithms"]["fedbuff"]["client"] = {"epochs": 2}
    done = fedhpc("plan", write(tmp_path / "phones.yaml", content))
    assert done.returncode == 0, done.stderr
    assert (
        "scenario hs1: devices of 1 profile in capacity.pkl. An update takes them a median of 11 s (11 to 11 for 80 "
        "%) in fedavg; 14 s (14 to 14 for 80 %) in fedbuff"
    ) in done.stdout
    assert "hs4: devices of 1 profile in capacity.pkl; the fastest 100 % need half the time. An update" in done.stdout
    assert "a median of 5.5 s (5.5 to 5.5 for 80 %) in fedavg; 7 s" in done.stdout
    (tmp_path / "capacity.pkl").unlink()
    lacking = fedhpc("plan", tmp_path / "phones.yaml")
    assert lacking.returncode == 0
    assert "scenarios.hs1.devices.path: there is no file 'capacity.pkl'" in lacking.stdout
    refused = fedhpc("sweep", tmp_path / "phones.yaml", "--output", tmp_path / "out")
    assert refused.returncode == 2
    assert "scenarios.hs1.devices.path: there is no file 'capacity.pkl'" in refused.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "capacity.pkl").write_bytes(b"of no kind")
    damaged = fedhpc("plan", tmp_path / "phones.yaml")
    assert damaged.returncode == 2
    assert "scenarios.hs1.devices.path: " in damaged.stderr
    assert "capacity.pkl is not as it should be: the file is no pickle, or a damaged one" in damaged.stderr


def test_what_availability_is_like_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SynchronousSettings, "FOLLOWS_AVAILABILITY", True)
    day, hour = 86_400, 3600
    # A week in which two of three clients are online, the first by night and the second by day, half an hour each.
    at_three, at_fifteen = ([day * each + hour * begin for each in range(7)] for begin in (3, 15))
    traces = [
        {"active": begins, "inactive": [begin + 1800 for begin in begins], "finish_time": 7 * day}
        for begins in (at_three, at_fifteen, [])
    ]
    (tmp_path / "trace.pkl").write_bytes(pickle.dumps(dict(enumerate(traces))))
    trace = {"source": "fedscale", "path": "trace.pkl", "forecast": {"kind": "seasonal"}}
    devices = {"source": "clusters", "model_kbit": 800}
    content = schedules_only(
        task={"kind": "null", "clients": 3, "examples": 10},
        algorithms={"fedavg": {**SYNCHRONOUS, "cohort": 2}},
        scenarios={
            "trace": {"devices": devices, "availability": trace},
            "drawn": {"devices": devices, "availability": {"source": "generated"}},
        },
    )
    experiment = load_experiment(write(tmp_path / "phones.yaml", content))
    lines = list(plan._clients(experiment, population_of(experiment.task, None)))
    assert [line.partition(". ")[0] for line in lines] == [
        "scenarios trace, drawn: devices generated, not measured: six groups of devices",
        "scenario trace: availability of the trace trace.pkl",
        lines[2],
        "scenario drawn: availability generated, not measured: charges by night for hours, and by day for minutes; the "
        "week repeats",
    ]
    assert lines[1].endswith(
        "A client is online for a median of 30.0 min, 70 % of the times for less than 30.0 min; of 3 clients 33% are "
        "at 3:00 and 33% at 15:00"
    )
    assert "the seasonal forecast has R2 0." in lines[2]
    assert "of 3 clients" in lines[2]


def test_a_schedule_that_never_ends_is_named(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text(
        "task: {kind: null, clients: 2, examples: 1}\n"
        "client: {batch_size: 1, epochs: 1, optimizer: {name: sgd, rate: 1}}\n"
        "server_optimizer: {name: sgd, rate: 1}\n"
        "algorithms: {hasty: {scheduler: stale_synchronous, cohort: 1, deadline: 1}}\n"
        "scenarios: {slow: {per_step: {distribution: constant, value: 9}}}\n"
        "budget: {server_updates: 1}\n"
        "evaluation: {every: 1, unit: server_updates}\n"
    )
    with pytest.raises(ScheduleError, match=r"^hasty/slow: 10,000 deadlines passed in a row"):
        plan.print_plan(load_experiment(file), load_site(None), Console(quiet=True))


def test_a_plan_of_next_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedhpc.data.preparation.load", lambda *_: sentences.examples())
    experiment = load_experiment(sentences.sentence_experiment(tmp_path, []))
    console = Console(record=True, width=200, file=io.StringIO())
    plan.print_plan(experiment, Site(), console)
    told = console.export_text()
    assert "partition by_column: 6 clients with 1 to 5 training examples (median 2)\n" in told
    assert re.search(r"fare_dust +domain +12 ", told)
    with pytest.raises(ExperimentError, match="next_words has no class an example, which is what is drawn; leave --dr"):
        plan.print_plan(experiment, Site(), console, draw=tmp_path / "drawn.png")


def planned(file: Path, draw: Path | None = None) -> str:
    console = Console(record=True, width=200, file=io.StringIO())
    try:
        plan.print_plan(load_experiment(file), Site(), console, draw)
    finally:
        told = console.export_text()
    return told


def test_short_federations_are_told_in_seconds_as_in_the_report(tmp_path: Path) -> None:
    rows = planned(write(tmp_path / "small.yaml", schedules_only(budget={"virtual_seconds": 120}, trials=1)))
    assert "virtual seconds" in rows
    assert "virtual hours" not in rows
    long = planned(write(tmp_path / "long.yaml", schedules_only(budget={"virtual_seconds": 7200}, trials=1)))
    assert re.search(r"fedavg +slow .* 2\.0 +-", long), long


def with_percent(percent: float, clients: int) -> dict[str, Any]:
    return schedules_only(
        task={"kind": "null", "clients": clients, "examples": 10},
        algorithms={"fedavg": SYNCHRONOUS},
        client={"batch_size": 5, "epochs": 3, "optimizer": {"name": "sgd", "rate": 0.1}},
        scenarios={
            "late": {
                "capability": {"distribution": "constant", "value": 2},
                "straggler_percent": percent,
            }
        },
    )


def test_the_deadline_is_told(tmp_path: Path) -> None:
    """3 epochs of 10 examples, 2 a second: 15 s for everybody, so that nobody is later than the deadline."""
    told = planned(write(tmp_path / "late.yaml", with_percent(30, 20)))
    assert (
        "scenario late: straggler_percent 30: the deadline is 15 virtual seconds, which 0 of 20 clients miss with all "
        "their epochs in fedavg\n"
    ) in told
    drawn = with_percent(30, 20)
    drawn["scenarios"]["late"]["capability"] = {"distribution": "uniform", "low": 1, "high": 3}
    told = planned(write(tmp_path / "drawn.yaml", drawn))
    assert "in fedavg; every trial draws its own capabilities, and this is trial 0\n" in told


def test_a_share_in_the_place_of_a_percentage_is_refused_or_warned_of(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError) as refused:
        planned(write(tmp_path / "late.yaml", with_percent(0.3, 20)))
    assert refused.value.mistakes == [
        "scenarios.late.straggler_percent: 0.3 is a percentage, and less than one of 20 clients; give 30 for 30 %"
    ]
    told = planned(write(tmp_path / "many.yaml", with_percent(0.3, 400)))
    assert "straggler_percent 0.3 (a percentage, below one in a hundred: for 30 % give 30): the deadline is" in told


def test_missing_data_are_told_beside_what_cannot_be_drawn(tmp_path: Path) -> None:
    content = digits(40)
    absent = {"source": "file", "path": "absent.csv", "features": "*", "label": "y", "held_out": 0.2}
    content["task"] = {**content["task"], "data": absent}
    console = Console(record=True, width=200, file=io.StringIO())
    with pytest.raises(ExperimentError, match=r"'who\.jpg' is no picture"):
        plan.print_plan(load_experiment(write(tmp_path / "own.yaml", content)), Site(), console, tmp_path / "who.jpg")
    assert "there is no file 'absent.csv'" in console.export_text()
