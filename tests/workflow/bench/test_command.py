"""``fedhpc bench``, run for real on little work. What it measures is not judged: speed is no test's affair."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.experiments import fedhpc

SPREAD = {"min", "median", "max"}


def bench(file: Path, *words: object) -> dict[str, Any]:
    """The figures of a small form of the suite."""
    done = fedhpc("bench", "--json", file, "--small", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(file) in done.stdout
    content = json.loads(file.read_text())
    assert content["machine"].keys() >= {"processor", "cores", "torch", "mpi", "device"}
    for workload in content["workloads"]:
        assert workload in done.stdout
    figures: dict[str, Any] = content["workloads"]
    return figures


def test_two_repeats_of_a_training_workload_and_of_the_null_engine(tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    figures = bench(file, "--repeats", 2, "--workloads", "null_engine", "B")
    assert json.loads(file.read_text())["repeats"] == 2
    assert list(figures) == ["B", "null_engine"]
    trained = figures["B"]
    ours, bare = trained["seconds"]["ours"], trained["seconds"]["bare"]
    assert len(ours) == len(bare) == 2
    # Two server updates of three clients each.
    assert trained["client_updates"] == 6
    for key, values in {
        "ratio_to_bare_loop": [b / o for o, b in zip(ours, bare, strict=True)],
        "client_updates_per_s": [6 / o for o in ours],
        "bare_client_updates_per_s": [6 / b for b in bare],
    }.items():
        assert trained[key].keys() == SPREAD
        assert trained[key]["min"] == pytest.approx(min(values))
        assert trained[key]["median"] == pytest.approx(sum(values) / 2)
        assert trained[key]["max"] == pytest.approx(max(values))
    engine = figures["null_engine"]
    assert engine["algorithms"].keys() == {"fedavg", "fedavg_over_selection", "fedbuff"}
    medians = [each["client_updates_per_s"]["median"] for each in engine["algorithms"].values()]
    assert engine["client_updates_per_s"]["median"] == min(medians)
    assert engine["client_updates_per_s"].keys() == SPREAD


def test_a_workload_of_every_other_kind(tmp_path: Path) -> None:
    names = ["A_bf16", "C", "scaling", "start_up", "idle", "memory"]
    figures = bench(tmp_path / "speed.json", "--repeats", 1, "--workloads", *names)
    assert set(figures) == set(names)
    for name in ("A_bf16", "C"):
        (ours,), (bare,) = (figures[name]["seconds"][whose] for whose in ("ours", "bare"))
        assert figures[name]["ratio_to_bare_loop"] == dict.fromkeys(SPREAD, pytest.approx(bare / ours))
    scaling = figures["scaling"]
    one, two = (scaling[ranks]["client_updates_per_s"]["median"] for ranks in ("one_rank", "two_ranks"))
    assert scaling["ratio_of_two_ranks_to_one"]["median"] == pytest.approx(two / one)
    assert figures["start_up"]["run_s"].keys() == figures["start_up"]["help_s"].keys() == SPREAD
    assert figures["idle"]["share_of_a_core"].keys() == SPREAD
    memory = figures["memory"]
    for rank in (memory["rank_0"], memory["rank_1"]):
        assert rank["peak_resident_bytes"] >= rank["resident_before_the_run_bytes"] > 0
        assert rank["peak_resident_bytes"] > rank["private_bytes"] > 0
    # One server update of two among ten clients of a hundred images, and a hundred images held out; 16 bytes a
    # parameter.
    assert memory["data_touched_bytes"] == 300 * (28 * 28 * 4 + 8)
    assert memory["four_models_bytes"] == 16 * 1_206_590


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--workloads", "B", "nul_engine"), "--workloads: 'nul_engine' is unknown; did you mean 'null_engine'?"),
        (("B",), "unexpected: B"),
        (("--workloads", "B", "--json", "/dev/null/speed.json"), "--json: cannot be written: /dev/null is no folder"),
        (("--repeats", 0), "--repeats"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_is_measured(
    words: tuple[object, ...], told: str, tmp_path: Path
) -> None:
    done = fedhpc("bench", "--json", tmp_path / "speed.json", "--small", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "measuring" not in done.stdout
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_measured_process_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text("#!/bin/sh\necho no ranks today\nexit 3\n")
    launcher.chmod(0o755)
    site = tmp_path / "site.yaml"
    site.write_text(f"launcher: {launcher}\n")
    done = fedhpc("bench", "--json", tmp_path / "speed.json", "--small", "--workloads", "B", "--site", site)
    assert done.returncode == 2
    assert "ended with status 3" in done.stderr
    assert "no ranks today" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "speed.json").exists()


def test_coresets_are_built_in_several_sizes_and_in_updates(tmp_path: Path) -> None:
    figures = bench(tmp_path / "speed.json", "--repeats", 1, "--workloads", "coresets")["coresets"]
    built = {f"{share}_percent_of_250" for share in (5, 10, 50)}
    assert figures.keys() == built | {"10_percent_of_2500", "emnist_cnn", "logistic"}
    assert all(figures[name]["build_s"] > 0 for name in figures)
    for model in ("emnist_cnn", "logistic"):
        update = figures[model]
        assert update["build_share"] == pytest.approx(update["build_s"] / update["update_s"])


def test_a_week_of_learners_is_measured_by_selection(tmp_path: Path) -> None:
    figures = bench(tmp_path / "speed.json", "--repeats", 1, "--workloads", "week")["week"]
    assert figures.keys() == {"uniform", "relay", "oort", "peak_resident_bytes"}
    assert figures["peak_resident_bytes"] > 10**7
    for name in ("uniform", "relay", "oort"):
        assert figures[name]["run_s"] > 0
        assert figures[name]["processor_s"] > 0
