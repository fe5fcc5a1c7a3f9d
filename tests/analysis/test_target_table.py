import csv
import io
from math import inf, isnan

from fedhpc.analysis.target_table import (
    Target,
    TargetCount,
    csv_target_table,
    target_laid,
    target_table,
)
from tests.analysis.datasets import experiment

TARGET = Target("total_accuracy", 0.75)


def run(*accuracies: float) -> dict[str, list[float]]:
    """Evaluation k after k hours and 1000 k trips."""
    steps = range(len(accuracies))
    counts = {name: [1000.0 * k for k in steps] for name in ("client_trips", "client_updates", "server_updates")}
    return {"time": [3600.0 * k for k in steps], **counts, "total_accuracy": list(accuracies)}


RUNS = experiment(
    {
        ("fedavg", "slow"): [run(0, 0.8, 0.8, 0.8), run(0, 0, 0.75, 0.8), run(0, 0, 0, 0.8)],
        ("fedbuff", "slow"): [run(0, 0.8, 0.8, 0.8), run(0, 0, 0, 0), run(0, 0, 0, 0.7)],
        ("fedavg", "even"): [run(0, 0.9, 0.9, 0.9), run(0, 0, 0, 0.1), None],
        ("fedbuff", "even"): [None, None, None],
    }
)


def test_a_trial_that_never_gets_there_counts_as_infinitely_long() -> None:
    rows = target_table(RUNS, TARGET)
    assert [(row.scenario, row.algorithm) for row in rows] == [
        ("slow", "fedavg"),
        ("slow", "fedbuff"),
        ("even", "fedavg"),
        ("even", "fedbuff"),
    ]
    assert [row.client_trips for row in rows[:3]] == [
        TargetCount(2000, 3000),
        TargetCount(inf, 3000),
        TargetCount(inf, 3000),
    ]
    assert rows[0].virtual_hours == TargetCount(2, 3)
    assert isnan(rows[3].client_trips.median)
    assert [(row.reached, row.finished, row.trials) for row in rows] == [(3, 3, 3), (1, 3, 3), (1, 2, 3), (0, 0, 3)]


def test_as_text() -> None:
    assert str(target_laid(target_table(RUNS, TARGET), TARGET)) == (
        "scenario  algorithm  client trips to total_accuracy 0.75  virtual hours  reached\n"
        "--------  ---------  -----------------------------------  -------------  -------\n"
        "slow      fedavg                                   2,000            2.0      3/3\n"
        "          fedbuff                                > 3,000          > 3.0      1/3\n"
        "\n"
        "even      fedavg                                 > 3,000          > 3.0      1/2\n"
        "          fedbuff                                      -              -      0/0\n"
    )


def test_as_csv() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_target_table(target_table(RUNS, TARGET), TARGET))))
    assert lines[0] == {
        "scenario": "slow",
        "algorithm": "fedavg",
        "metric": "total_accuracy",
        "target": "0.75",
        "client_trips_median": "2000.0",
        "virtual_hours_median": "2.0",
        "client_trips_spent": "3000.0",
        "virtual_hours_spent": "3.0",
        "trials_reached": "3",
        "trials_finished": "3",
        "trials_planned": "3",
    }
    assert [line["client_trips_median"] for line in lines] == ["2000.0", "", "", ""]
    assert [line["client_trips_spent"] for line in lines] == ["3000.0", "3000.0", "3000.0", ""]
