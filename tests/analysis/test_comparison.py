"""A made-up table of four rows beside made-up runs."""

import csv
import io
from math import inf, nan

import pytest
import xarray as xr

from fedhpc.analysis.comparison import Claim, Compared, compare
from fedhpc.analysis.comparison_table import csv_comparisons, format_comparisons
from fedhpc.analysis.spread import Spread
from fedhpc.published import Published, PublishedTable
from tests.analysis.datasets import experiment

PERCENT = {"units": "%", "factor": 0.01, "meaning": "m"}
TABLE = PublishedTable.model_validate(
    {
        "paper": "Somebody et al.",
        "table": 5,
        "caption": "Four algorithms",
        "columns": {
            "straggler_accuracy": PERCENT,
            "straggler_accuracy_interval": PERCENT,
            "time": {"units": "ks", "factor": 1000, "meaning": "m"},
            "mood": {"units": "1", "meaning": "no variable of ours"},
        },
        "rows": {
            "First": {"straggler_accuracy": 80, "straggler_accuracy_interval": [75, 85], "time": 4, "mood": 1},
            "Second": {"straggler_accuracy": 76, "straggler_accuracy_interval": [74, 78], "time": 2},
            "Third": {"straggler_accuracy": 60, "straggler_accuracy_interval": [50, 70], "time": "> 600"},
            "Fourth": {"straggler_accuracy": 40, "straggler_accuracy_interval": [30, 45], "time": 1},
        },
        "notes": ["Fourth is odd."],
    }
)


def run(straggler: list[float], hundreds: list[float]) -> dict[str, list[float]]:
    return {"time": [100 * time for time in hundreds], "straggler_accuracy": straggler}


RUNS = experiment(
    {
        ("a", "slow"): [
            run([0, 0.5, 0.75], [0, 20, 40]),
            run([0, 0.6, 0.5], [0, 10, 60]),
            run([0, 0, 0.8], [0, 1, 50]),
        ],
        ("b", "slow"): [run([0, 0.5, 0.8125], [0, 10, 20]), None, None],
        ("c", "slow"): [run([0, 0.1, 0.125], [0, 10, 20]), None, None],
        ("d", "slow"): [run([0, 0.25, 0.25], [0, 10, 30]), run([0, 0.25, 0.375], [0, 10, 20]), None],
        ("e", "slow"): [None, None, None],
    }
)
ROWS = {"a": "First", "b": "Second", "c": "Third", "d": "Fourth"}


def beside(rows: dict[str, str] = ROWS, **at: float) -> Published:
    return Published.model_validate({"table": "t", "scenario": "slow", "rows": rows, "at": at or None})


def test_figures_are_compared_where_runs_end() -> None:
    found = compare(RUNS, beside(), TABLE)
    assert [(figure.algorithm, figure.row, figure.quantity) for figure in found.figures] == [
        ("a", "First", "straggler_accuracy"),
        ("a", "First", "time"),
        ("b", "Second", "straggler_accuracy"),
        ("b", "Second", "time"),
        # The paper's Third has no time.
        ("c", "Third", "straggler_accuracy"),
        ("d", "Fourth", "straggler_accuracy"),
        ("d", "Fourth", "time"),
    ]
    accuracy, time = found.figures[:2]
    assert accuracy.ours == Spread(75, 50, 80)
    assert (accuracy.trials, accuracy.published, accuracy.units) == (3, 80, "%")
    assert (accuracy.points, accuracy.ratio) == (-5, None)
    assert time.ours == Spread(5, 4, 6)
    assert (time.ratio, time.points) == (1.25, None)
    assert found.figures[-1] == Compared("d", "Fourth", "time", "ks", Spread(2.5, 2, 3), 2, 1)


def test_the_papers_order() -> None:
    order = compare(RUNS, beside(), TABLE).order
    assert order is not None
    # Ours are 75, 81.25, 12.5 and 31.25, so that First and Second, and Third and Fourth, stand the other way round.
    assert order.tau == pytest.approx((4 - 2) / 6)
    # First and Second overlap; all other pairs do not.
    assert order.claims == [
        Claim("First", "Third", 75 - 12.5),
        Claim("First", "Fourth", 75 - 31.25),
        Claim("Second", "Third", 81.25 - 12.5),
        Claim("Second", "Fourth", 81.25 - 31.25),
        Claim("Third", "Fourth", 12.5 - 31.25),
    ]
    assert [claim.holds for claim in order.claims] == [True, True, True, True, False]


def test_rows_may_be_given_in_any_order() -> None:
    order = compare(RUNS, beside({"d": "Fourth", "a": "First"}), TABLE).order
    assert order is not None
    assert order.claims == [Claim("First", "Fourth", 43.75)]


def test_figures_at_a_milestone() -> None:
    found = compare(RUNS, beside(straggler_accuracy=0.5), TABLE)
    # a reaches it after 2, 1 and 5 ks; c and d never do.
    assert found.figures[1].ours == Spread(2, 1, 5)
    assert found.figures[0].ours == Spread(60, 50, 80)
    assert [figure.trials for figure in found.figures] == [3, 3, 1, 1, 0, 0, 0]
    assert found.order is not None
    assert found.order.claims == []


def test_without_runs_there_is_nothing_to_put_in_order() -> None:
    found = compare(RUNS, beside({"a": "First", "e": "Second"}), TABLE)
    assert found.order is None
    assert (found.figures[-1].trials, str(found.figures[-1].ours.median)) == (0, str(nan))


def test_a_null_task_is_compared_by_time_only() -> None:
    found = compare(RUNS.drop_vars("straggler_accuracy"), beside(), TABLE)
    assert {figure.quantity for figure in found.figures} == {"time"}
    assert found.order is None


RELATIVE = PublishedTable.model_validate(
    {
        "paper": "Somebody et al.",
        "table": 6,
        "until_target": True,
        "caption": "Relative times",
        "columns": {"relative_time": {"units": "1", "meaning": "m"}, "top_accuracy": PERCENT},
        "rows": {
            "First": {"relative_time": 1, "top_accuracy": 90},
            "Second": {"relative_time": 1.5},
            "Third": {"relative_time": "never"},
            "Fourth": {"relative_time": 0.5},
        },
    }
)


def learner(total: list[float], hundreds: list[float]) -> dict[str, list[float]]:
    return {"time": [100 * time for time in hundreds], "total_accuracy": total}


LEARNERS = experiment(
    {
        ("a", "slow"): [learner([0, 0.9, 0.5], [0, 10, 20]), learner([0, 0.8, 0.9], [0, 10, 40]), None],
        # In the first trial it takes twice as long as a, in the second three quarters; the third has no reference.
        ("b", "slow"): [learner([0, 0.1, 0.9], [0, 10, 20]), learner([0, 0.9], [0, 30]), learner([0, 0.9], [0, 1])],
        # It never gets there in one of two trials, nor does the paper's.
        ("c", "slow"): [learner([0, 0.2], [0, 10]), learner([0, 0.9], [0, 20]), None],
        ("d", "slow"): [learner([0.9], [5]), learner([0, 0.95], [0, 60]), None],
    }
)


def relative() -> Published:
    return Published.model_validate(
        {"table": "t", "scenario": "slow", "rows": ROWS, "at": {"total_accuracy": 0.9}, "relative_to": "a"}
    )


def test_times_relative_to_another_algorithms_trial_by_trial() -> None:
    found = compare(LEARNERS, relative(), RELATIVE)
    by_row = {(figure.row, figure.quantity): figure for figure in found.figures}
    assert by_row["First", "relative_time"].ours == Spread(1, 1, 1)
    assert by_row["First", "top_accuracy"].ours == Spread(90, 90, 90)
    second = by_row["Second", "relative_time"]
    assert second.ours == Spread(1.375, 0.75, 2)
    assert (second.trials, second.ratio) == (2, pytest.approx(1.375 / 1.5))
    never = by_row["Third", "relative_time"]
    assert never.ours == Spread(inf, 0.5, inf)
    assert never.trials == 2
    assert by_row["Fourth", "relative_time"].ours == Spread(1, 0.5, 1.5)


@pytest.mark.parametrize("measure", ["dice", "balanced_accuracy"])
def test_the_highest_of_a_runs_evaluations(measure: str) -> None:
    table = PublishedTable.model_validate(
        {
            "paper": "P",
            "table": 1,
            "caption": "C",
            "columns": {f"top_{measure}": PERCENT},
            "rows": {"R": {f"top_{measure}": 80}},
        }
    )
    runs = experiment({("a", "slow"): [{"time": [0, 1, 2], measure: [0.5, 0.9, 0.7]}]})
    (figure,) = compare(runs, Published(table="t", scenario="slow", rows={"a": "R"}), table).figures
    assert (figure.ours.median, figure.points) == (pytest.approx(90), pytest.approx(10))


def test_the_papers_order_of_times() -> None:
    order = compare(LEARNERS, relative(), RELATIVE).order
    assert order is not None
    # The paper's 1, 1.5, never, 0.5 beside our 1, 1.375, never, 1: every pair stands alike but First and Fourth, a tie.
    assert order.tau == pytest.approx(5 / (6 * 5) ** 0.5)
    assert order.claims == [Claim("First", "Second", 0.375), Claim("First", "Third", inf), Claim("Fourth", "First", 0)]
    assert [claim.holds for claim in order.claims] == [True, True, False]


def test_relative_times_as_text() -> None:
    text = " ".join(format_comparisons([compare(LEARNERS, relative(), RELATIVE)]).split())
    assert "c Third relative time, 1 never [0.50, never] never - - 2" in text
    assert "b Second relative time, 1 1.38 [0.75, 2.00] 1.50 x 0.917 inside 2" in text
    assert (
        "Order by relative time: Kendall's tau 0.91. Of 3 pairs that the paper tells apart, 2 stand in its order"
        in text
    )
    assert "First before Second: holds (+0.38)" in text


def test_rounds_in_units_of_the_deadline() -> None:
    table = PublishedTable.model_validate(
        {
            "paper": "Somebody et al.",
            "table": 7,
            "caption": "Rounds",
            "columns": {"round_length": {"units": "deadline", "meaning": "m"}},
            "rows": {"First": {"round_length": 1.5}},
        }
    )
    rounds = {"time": [0.0, 20.0, 60.0], "server_updates": [0.0, 4.0, 10.0]}
    runs = experiment({("a", "slow"): [rounds, None]})
    published = beside({"a": "First"})
    assert compare(runs, published, table).figures == []
    deadlines = xr.DataArray([[[4.0, nan]]], dims=("algorithm", "scenario", "trial"))
    (figure,) = compare(runs.assign(deadline=deadlines), published, table).figures
    # 60 seconds in 10 rounds, of 4 seconds' deadline.
    assert figure.ours == Spread(1.5, 1.5, 1.5)
    assert (figure.trials, figure.ratio) == (1, 1.0)


def test_as_text() -> None:
    comparisons = [
        compare(RUNS, beside(), TABLE),
        compare(RUNS, beside({"a": "First", "e": "Second"}, time=2000), TABLE),
    ]
    # How columns are aligned is tested with the closing table.
    lines = [
        " ".join(line.split()) for line in format_comparisons(comparisons).splitlines() if not line.startswith("-")
    ]
    assert lines == [
        "Somebody et al., Table 5",
        "Four algorithms",
        "",
        "Beside scenario slow, where the runs end:",
        "algorithm the paper's row quantity ours the paper's against it against the interval trials",
        "a First straggler accuracy, % 75.0 [50.0, 80.0] 80.0 [75.0, 85.0] -5.0 points inside 3",
        "time, ks 5.0 [4.0, 6.0] 4.0 x 1.250 inside 3",
        "b Second straggler accuracy, % 81.2 76.0 [74.0, 78.0] +5.2 points above by 3.2 points 1",
        "time, ks 2.0 2.0 x 1.000 inside 1",
        "c Third straggler accuracy, % 12.5 60.0 [50.0, 70.0] -47.5 points below by 37.5 points 1",
        "d Fourth straggler accuracy, % 31.2 [25.0, 37.5] 40.0 [30.0, 45.0] -8.8 points inside 2",
        "time, ks 2.5 [2.0, 3.0] 1.0 x 2.500 above by 100 % 2",
        "Order by straggler accuracy: Kendall's tau 0.33. Of 5 pairs that the paper's intervals tell apart, 4 stand in "
        "its order here.",
        "First above Third: holds (+62.5 points)",
        "First above Fourth: holds (+43.8 points)",
        "Second above Third: holds (+68.8 points)",
        "Second above Fourth: holds (+50.0 points)",
        "Third above Fourth: does not hold (-18.8 points)",
        "",
        "Beside scenario slow, at the first evaluation with time of 2000 or more:",
        "algorithm the paper's row quantity ours the paper's against it against the interval trials",
        "a First straggler accuracy, % 50.0 [50.0, 80.0] 80.0 [75.0, 85.0] -30.0 points below by 25.0 points 3",
        "time, ks 5.0 [2.0, 6.0] 4.0 x 1.250 inside 3",
        "e Second straggler accuracy, % - 76.0 [74.0, 78.0] - - 0",
        "time, ks - 2.0 - - 0",
        "",
        "In brackets the range over trials, and the paper's interval where it prints one. The mark says whether our "
        "median lies inside the paper's interval or, where the paper prints none, whether the paper's figure lies "
        "inside ours.",
        "Note: Fourth is odd.",
    ]


def test_as_csv() -> None:
    comparisons = [compare(RUNS, beside({"a": "First"}), TABLE), compare(RUNS, beside({"e": "First"}, time=5), TABLE)]
    lines = list(csv.DictReader(io.StringIO(csv_comparisons(comparisons))))
    assert lines[1] == {
        "table": "t",
        "scenario": "slow",
        "at": "",
        "algorithm": "a",
        "published_row": "First",
        "quantity": "time",
        "units": "ks",
        "ours_median": "5.0",
        "ours_low": "4.0",
        "ours_high": "6.0",
        "interval": "range",
        "trials": "3",
        "published": "4.0",
        "published_low": "",
        "published_high": "",
        "ratio": "1.25",
        "points": "",
        "beyond_interval": "0.0",
    }
    assert (lines[0]["ratio"], lines[0]["points"]) == ("", "-5.0")
    assert (lines[2]["at"], lines[2]["ours_median"], lines[2]["points"]) == ("time=5", "", "")
