import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedhpc.analysis.spread import Spread
from fedhpc.analysis.table import closing_table, csv_table, format_table
from fedhpc.store import open_experiment
from fedhpc.store.record import RunRecord
from fedhpc.store.run_file import write_run
from tests.store.records import null_record, record, run_path


def finished(algorithm: str, scenario: str, trial: int, straggler: float, total: float, hours: float) -> RunRecord:
    """A run that ends with these accuracies at that hour."""
    return record(
        algorithm,
        scenario,
        trial,
        evaluations={
            "time": [0.0, 60.0, 3600 * hours],
            "straggler_accuracy": [0.9, 0.9, straggler],
            "total_accuracy": [0.9, 0.9, total],
        },
    )


def small_sweep(folder: Path) -> None:
    """Three trials of fedavg under 'slow'; two of fedbuff; none of fedbuff under 'even'."""
    (folder / "experiment.yaml").write_text(
        "algorithms: {fedavg: {}, fedbuff: {}}\nscenarios: {slow: {}, even: {}}\ntrials: 3\n"
    )
    for run in (
        finished("fedavg", "slow", 0, 0.5, 0.75, 2.0),
        finished("fedavg", "slow", 1, 0.25, 0.8125, 8.0),
        finished("fedavg", "slow", 2, 0.375, 0.5, 3.0),
        finished("fedbuff", "slow", 0, 0.5, 0.5, 1.0),
        finished("fedbuff", "slow", 2, 0.75, 0.5, 2.0),
        finished("fedavg", "even", 1, 0.125, 1.0, 0.5),
    ):
        write_run(run_path(folder, run), run)


def test_medians_and_ranges_over_trials(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    rows = closing_table(open_experiment(tmp_path))
    assert [(row.scenario, row.algorithm, row.finished, row.trials) for row in rows] == [
        ("slow", "fedavg", 3, 3),
        ("slow", "fedbuff", 2, 3),
        ("even", "fedavg", 1, 3),
        ("even", "fedbuff", 0, 3),
    ]
    assert rows[0].measures == {
        "straggler_accuracy": Spread(0.375, 0.25, 0.5),
        "total_accuracy": Spread(0.75, 0.5, 0.8125),
    }
    assert rows[1].measures["straggler_accuracy"] == Spread(0.625, 0.5, 0.75)
    assert [row.virtual_hours for row in rows[:3]] == [3.0, 1.5, 0.5]


def test_the_table_as_text(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    assert format_table(closing_table(open_experiment(tmp_path))) == (
        "scenario  algorithm  straggler accuracy %   total accuracy %  virtual hours  trials\n"
        "--------  ---------  --------------------  -----------------  -------------  ------\n"
        "slow      fedavg        37.5 [25.0, 50.0]  75.0 [50.0, 81.2]            3.0       3\n"
        "          fedbuff       62.5 [50.0, 75.0]  50.0 [50.0, 50.0]            1.5     2/3\n"
        "\n"
        "even      fedavg                     12.5              100.0            0.5     1/3\n"
        "          fedbuff                       -                  -              -     0/3\n"
        "Medians at the ends of the runs; in brackets the range over trials.\n"
    )


def test_the_table_as_csv(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    lines = list(csv.DictReader(io.StringIO(csv_table(closing_table(open_experiment(tmp_path))))))
    assert len(lines) == 4
    assert lines[1] == {
        "scenario": "slow",
        "algorithm": "fedbuff",
        "straggler_accuracy_median": "0.625",
        "straggler_accuracy_low": "0.5",
        "straggler_accuracy_high": "0.75",
        "total_accuracy_median": "0.5",
        "total_accuracy_low": "0.5",
        "total_accuracy_high": "0.5",
        "virtual_hours_median": "1.5",
        "interval": "range",
        "trials_finished": "2",
        "trials_planned": "3",
    }
    assert (lines[3]["straggler_accuracy_median"], lines[3]["virtual_hours_median"]) == ("", "")


def test_a_run_that_was_evaluated_less_often_counts_with_its_own_last_evaluation(tmp_path: Path) -> None:
    long = finished("fedavg", "slow", 0, 0.5, 0.75, 4.0)
    short = record("fedavg", "slow", 1)
    cut = replace(short, evaluations={name: list(column)[:2] for name, column in short.evaluations.items()})
    for run in (long, cut):
        write_run(run_path(tmp_path, run), run)
    (row,) = closing_table(open_experiment(tmp_path))
    # By hand: the short run ends at 0.5 hours with a straggler accuracy of 0.25.
    assert row.measures["straggler_accuracy"] == Spread(0.375, 0.25, 0.5)
    assert row.virtual_hours == pytest.approx(2.25)
    assert row.finished == 2


def test_a_null_task_has_virtual_hours_only(tmp_path: Path) -> None:
    run = null_record()
    write_run(run_path(tmp_path, run), run)
    rows = closing_table(open_experiment(tmp_path))
    assert rows[0].measures == {}
    assert format_table(rows).splitlines()[0].split() == ["scenario", "algorithm", "virtual", "hours", "trials"]
    assert csv_table(rows).splitlines()[1] == "per_domain,fedavg,1.0,range,1,1"


def test_a_model_that_diverged_is_named(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    assert "diverged" not in format_table(closing_table(open_experiment(tmp_path)))
    lost = finished("fedbuff", "slow", 1, 1.0, 0.1, 2.0)
    lost.evaluations["loss"] = np.array([2.0, np.inf, np.nan])
    write_run(run_path(tmp_path, lost), lost)
    note = format_table(closing_table(open_experiment(tmp_path))).splitlines()[-1]
    assert note.startswith("fedbuff diverged under slow in 1 of 3 trials")


def test_one_trial_has_no_range(tmp_path: Path) -> None:
    one = finished("fedavg", "slow", 0, 0.5, 0.75, 2.0)
    write_run(run_path(tmp_path, one), one)
    text = format_table(closing_table(open_experiment(tmp_path)))
    assert "[" not in text
    assert text.endswith("Where the runs end; of one trial each, so that there is no range.\n")
