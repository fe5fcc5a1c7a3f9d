"""Law 6: what can be known before a node-hour is spent is refused, with the path of the key and the mend."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CASES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "an unknown key": (
        lambda settings: settings["algorithms"]["fedavg"].update(cohrt=3),
        "algorithms.fedavg.cohrt: unknown key; did you mean 'cohort'?",
    ),
    "a cohort larger than the population": (
        lambda settings: settings["algorithms"]["fedavg"].update(cohort=13),
        "algorithms.fedavg.cohort: 13 exceeds the population of 12 clients; lower it",
    ),
    "a column that the file does not have": (
        lambda settings: settings["task"]["data"].update(label="z_{split}"),
        "task.data.label",
    ),
    "a model of images on data that are none": (
        lambda settings: settings["task"].update(model={"name": "emnist_cnn"}),
        "task.model.name: emnist_cnn takes images",
    ),
    "a model whose statistics the algorithm has no rule for": (
        lambda settings: (
            settings["task"].update(model={"name": "cifar10_resnet18"}) or settings["client"].update(distillation=0.1)
        ),
        "task.model.name: cifar10_resnet18 keeps running statistics, which a teacher has no rule for",
    ),
    "a straggler class that nobody has": (
        lambda settings: settings["task"]["stragglers"].update(classes=[9]),
        "task.stragglers.classes",
    ),
}


@pytest.mark.parametrize("command", ["plan", "sweep"])
@pytest.mark.parametrize("case", CASES)
def test_refused_before_anything_is_computed(
    tiny: Callable[..., Path], tmp_path: Path, command: str, case: str
) -> None:
    change, sentence = CASES[case]
    file = tiny(change)
    output = ["--output", str(tmp_path / "results")] if command == "sweep" else []
    finished = subprocess.run(
        [sys.executable, "-m", "workflow", command, str(file), *output], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert sentence in finished.stderr
    assert "Traceback" not in finished.stderr
    assert not list((tmp_path / "results").rglob("trial-*"))


@pytest.mark.parametrize("command", ["plan", "sweep"])
def test_a_step_that_cannot_be_is_refused_before_anything_is_computed(
    tiny: Callable[..., Path], tmp_path: Path, command: str
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("step: {form: plain, clients: 4}\n")
    output = ["--output", str(tmp_path / "results")] if command == "sweep" else []
    finished = subprocess.run(
        [sys.executable, "-m", "workflow", command, str(tiny()), "--site", str(site), *output],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "algorithms.fedavg: step.clients: plain trains one client at a time" in finished.stderr
    assert not list((tmp_path / "results").rglob("trial-*"))


def test_another_step_than_the_folders_is_refused_before_anything_is_computed(
    tiny: Callable[..., Path], tmp_path: Path
) -> None:
    # One trial is there, and the second is asked for in another way.
    file, folder = tiny(lambda settings: settings.update(trials=1)), tmp_path / "results"
    sweep = [sys.executable, "-m", "workflow", "sweep"]
    assert (
        subprocess.run([*sweep, str(file), "--output", str(folder)], capture_output=True, check=False).returncode == 0
    )
    site = tmp_path / "site.yaml"
    site.write_text("step: {form: plain}\n")
    finished = subprocess.run(
        [*sweep, str(tiny()), "--output", str(folder), "--site", str(site)], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "algorithms.fedavg: step: {'form': 'plain'} is asked for, but" in finished.stderr
    assert not list(folder.rglob("trial-1.*"))


def test_plan_warns_of_data_still_to_be_fetched_and_sweep_refuses(tiny: Callable[..., Path], tmp_path: Path) -> None:
    file = tiny(lambda settings: settings["task"]["data"].update(path="absent.npz"))
    plan = subprocess.run(
        [sys.executable, "-m", "workflow", "plan", str(file)], capture_output=True, text=True, check=False
    )
    assert plan.returncode == 0, plan.stderr
    assert "absent.npz" in plan.stdout + plan.stderr
    command = [sys.executable, "-m", "workflow", "sweep", str(file), "--output", str(tmp_path / "results")]
    sweep = subprocess.run(command, capture_output=True, text=True, check=False)
    assert sweep.returncode == 2
    assert "task.data.path" in sweep.stderr
    assert "absent.npz" in sweep.stderr
