"""What is noted of attempts, and what it comes to."""

import json
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from fedhpc.experiment import Run
from tests.workflow.experiments import BUFFERED, fedhpc, schedules_only, write
from workflow.attempts import Attempt, Outcome, Overhead, attempted, attempts_file, in_words, overhead, read_attempts
from workflow.placement import Placement

PLACEMENT = Placement(("n1", "n2"), (4, 5), ("0",))


class _Stop(Exception):
    pass


def test_each_end_is_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "attempts.jsonl"
    with attempted(file, PLACEMENT, _Stop):
        pass
    with pytest.raises(_Stop), attempted(file, PLACEMENT, _Stop):
        raise _Stop
    with pytest.raises(ValueError, match="broken"), attempted(file, PLACEMENT, _Stop):
        raise ValueError("broken")
    with file.open("a") as lines:
        lines.write('{"node": "n1", "beg')  # killed in the act
    found = read_attempts(file)
    assert [attempt.outcome for attempt in found] == ["finished", "interrupted", "failed"]
    assert all((attempt.nodes, attempt.cores, attempt.gpus) == (["n1", "n2"], [4, 5], ["0"]) for attempt in found)
    assert all(0 <= attempt.ended_wall - attempt.began_wall < 10 for attempt in found)
    assert read_attempts(tmp_path / "nothing") == []


def test_a_sweeps_overhead(tmp_path: Path) -> None:
    experiment = write(tmp_path / "small.yaml", schedules_only(trials=1, algorithms={"fedbuff": BUFFERED}))
    before = time.time()
    done = fedhpc("sweep", experiment, "--output", tmp_path / "results")
    after = time.time()
    assert done.returncode == 0, done.stdout + done.stderr
    run = Run("fedbuff", "slow", 0)
    (attempt,) = read_attempts(attempts_file(tmp_path / "results", run))
    assert before < attempt.began_wall < attempt.ended_wall < after
    found = overhead(tmp_path / "results", [run], before)
    assert found is not None
    assert found.runs == 1
    # What the result says and what is beyond it make up the attempt.
    assert found.own_seconds + found.beyond_seconds == pytest.approx(attempt.ended_wall - attempt.began_wall)
    assert 0 < found.own_seconds < found.own_seconds + found.beyond_seconds < after - before
    assert "1 run took" in done.stdout
    # Of an earlier sweep nothing counts.
    assert overhead(tmp_path / "results", [run], after) is None


def test_in_words_by_hand() -> None:
    found = Overhead(runs=8, own_seconds=480.0, beyond_seconds=1.5)
    assert in_words(found, 4, 150.0) == (
        "8 runs took 60.0 s each, and 1.5 s to start and end; the federations filled 80 % of 4 places in 150 s"
    )
    assert in_words(found, None, 150.0) == "8 runs took 60.0 s each, and 1.5 s to start and end"


def test_an_interrupted_run_does_not_count(tmp_path: Path) -> None:
    run = Run("a", "b", 0)
    file = attempts_file(tmp_path, run)
    file.parent.mkdir(parents=True)
    now = time.time()
    outcomes: list[Outcome] = ["interrupted", "finished"]
    for outcome in outcomes:
        attempt = Attempt(["n"], [], [], now, now + 1, outcome)
        file.open("a").write(json.dumps(asdict(attempt)) + "\n")
    assert read_attempts(file) == [
        Attempt(["n"], [], [], now, now + 1, "interrupted"),
        Attempt(["n"], [], [], now, now + 1, "finished"),
    ]
    assert overhead(tmp_path, [run], 0.0) is None


def test_lines_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    file = attempts_file(tmp_path, Run("fedavg", "slow", 0))
    file.parent.mkdir(parents=True)
    attempt = Attempt(["node1"], [0], [], 1.0, 2.0, "finished")
    file.write_bytes(b"\xff{\n\0\0\n" + json.dumps(asdict(attempt)).encode() + b"\n")
    assert read_attempts(file) == [attempt]
