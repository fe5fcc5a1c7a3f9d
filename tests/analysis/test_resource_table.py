import csv
import io
from math import inf, isnan

import pytest

from fedhpc.analysis.reaching import NotMeasured
from fedhpc.analysis.resource_table import ToTarget, csv_resource_table, resource_laid, resource_note, resource_table
from fedhpc.analysis.target_table import Target, TargetCount
from fedhpc.analysis.time_unit import TimeUnit
from tests.analysis.datasets import experiment

TARGET = Target("total_accuracy", 0.75)
HOUR = 3600.0


def run(hours: list[float], wasted: list[float], clients: list[int], *accuracies: float) -> dict[str, list[float]]:
    """Evaluation k after k hours; hours of clients used and wasted."""
    return {
        "time": [HOUR * k for k in range(len(hours))],
        "resource_used": [HOUR * each for each in hours],
        "resource_wasted": [HOUR * each for each in wasted],
        "unique_clients": [float(each) for each in clients],
        "total_accuracy": list(accuracies),
    }


RUNS = experiment(
    {
        ("safa", "slow"): [
            run([0, 100, 2000], [0, 70, 1600], [0, 90, 100], 0.1, 0.5, 0.8),
            run([0, 100, 1000], [0, 70, 900], [0, 90, 98], 0.1, 0.75, 0.9),
            run([0, 300, 400], [0, 70, 300], [0, 90, 96], 0.1, 0.5, 0.7),
        ],
        ("relay", "slow"): [
            run([0, 10, 40], [0, 0, 0], [0, 10, 30], 0.1, 0.5, 0.6),
            run([0, 10], [0, 4], [0, 10], 0.1, 0.9),
            None,
        ],
        ("safa", "even"): [None, None, None],
        ("relay", "even"): [run([0, 0, 0], [0, 0, 0], [0, 0, 0], 0.1, 0.1, 0.1), None, None],
    }
)


def test_medians_by_hand() -> None:
    rows = resource_table(RUNS, TARGET)
    assert [(row.scenario, row.algorithm, row.finished, row.trials) for row in rows] == [
        ("slow", "safa", 3, 3),
        ("slow", "relay", 2, 3),
        ("even", "safa", 0, 3),
        ("even", "relay", 1, 3),
    ]
    safa, relay, missing, idle = rows
    # Wasted: 80, 90 and 75 % of what each trial used.
    assert (safa.used_hours, safa.wasted_hours, safa.wasted_share) == (1000, 900, 0.8)
    assert (safa.unique_clients, safa.total_accuracy) == (98, 0.8)
    # 0.75 is reached with 2,000 hours, with 100, and never.
    assert safa.to_target == ToTarget(TargetCount(2000, 1000), TargetCount(2, 2), 2)
    # The second trial ends at its second evaluation; of wasted shares there are 0 and 0.4.
    assert (relay.used_hours, relay.wasted_hours, relay.wasted_share) == (25, 2, 0.2)
    assert relay.to_target == ToTarget(TargetCount(inf, 25), TargetCount(inf, 1.5), 1)
    assert isnan(missing.used_hours)
    assert (idle.used_hours, idle.wasted_share) == (0, 0)


def test_as_text() -> None:
    rows = resource_table(RUNS, TARGET)
    assert str(resource_laid(rows, TARGET)) == (
        "scenario  algorithm  client time used (virtual hours)  wasted  wasted %  clients heard  total accuracy %  "
        "used to total_accuracy 0.75  virtual hours to it  reached  trials\n"
        "--------  ---------  --------------------------------  ------  --------  -------------  ----------------  "
        "---------------------------  -------------------  -------  ------\n"
        "slow      safa                                1,000.0   900.0      80.0             98              80.0  "
        "                    2,000.0                  2.0      2/3       3\n"
        "          relay                                  25.0     2.0      20.0             20              75.0  "
        "                     > 25.0                > 1.5      1/2     2/3\n"
        "\n"
        "even      safa                                      -       -         -              -                 -  "
        "                          -                    -      0/0     0/3\n"
        "          relay                                     0       0       0.0              0              10.0  "
        "                        > 0                > 2.0      0/1     1/3\n"
    )


def test_a_null_task_has_no_accuracies_and_short_runs_are_told_in_seconds() -> None:
    runs = RUNS.drop_vars("total_accuracy").sel(scenario=["slow"])
    text = str(resource_laid(resource_table(runs), client_unit=TimeUnit("virtual seconds", 1.0)))
    heading, _, safa, relay = text.splitlines()
    assert heading == (
        "scenario  algorithm  client time used (virtual seconds)       wasted  wasted %  clients heard  trials"
    )
    assert safa.split() == ["slow", "safa", "3,600,000.0", "3,240,000.0", "80.0", "98", "3"]
    assert relay.split() == ["relay", "90,000.0", "7,200.0", "20.0", "20", "2/3"]
    with pytest.raises(NotMeasured):
        resource_table(runs, TARGET)


def test_as_csv() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_resource_table(resource_table(RUNS, TARGET), TARGET))))
    assert lines[0] == {
        "scenario": "slow",
        "algorithm": "safa",
        "used_client_hours": "1000.0",
        "wasted_client_hours": "900.0",
        "wasted_share": "0.8",
        "unique_clients": "98.0",
        "total_accuracy": "0.8",
        "metric": "total_accuracy",
        "target": "0.75",
        "used_client_hours_to_target": "2000.0",
        "virtual_hours_to_target": "2.0",
        "trials_reached": "2",
        "trials_finished": "3",
        "trials_planned": "3",
    }
    assert [line["used_client_hours"] for line in lines] == ["1000.0", "25.0", "", "0.0"]
    assert [line["used_client_hours_to_target"] for line in lines] == ["2000.0", "", "", ""]
    plain = list(csv.DictReader(io.StringIO(csv_resource_table(resource_table(RUNS)))))
    assert list(plain[0]) == [
        name for name in lines[0] if "target" not in name and name not in ("metric", "trials_reached")
    ]


def test_the_note_says_what_is_counted() -> None:
    assert resource_note(RUNS).startswith("A client's time counts from its download to its upload")
    # Of relay's two trials one wasted something: the median of three would say that none did.
    once = RUNS.sel(algorithm=["relay"]).pad(trial=(0, 2), constant_values=0)
    assert resource_note(once).startswith("A client's time")
    idle = resource_note(RUNS.assign(resource_wasted=0 * RUNS["resource_wasted"]))
    assert idle.startswith("Nothing was wasted: every update that came in was used. A client's time")
