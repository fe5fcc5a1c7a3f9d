import numpy as np

from fedhpc.analysis.relative_time import common_target, relative_time
from fedhpc.analysis.relative_time_figure import relative_time_drawing
from fedhpc.analysis.target_table import Target
from tests.analysis.datasets import experiment


def run(*accuracies: float) -> dict[str, list[float]]:
    """Evaluation k after k hours."""
    steps = range(len(accuracies))
    counts = {name: [float(k) for k in steps] for name in ("client_trips", "client_updates", "server_updates")}
    return {"time": [3600.0 * k for k in steps], **counts, "total_accuracy": list(accuracies)}


RUNS = experiment(
    {
        ("slowest", "slow"): [run(0, 0, 0, 0.8), run(0, 0, 0.8, 0.9), None],
        ("sooner", "slow"): [run(0, 0.8, 0.8, 0.8), run(0, 0, 0.1, 0.1), run(0, 0.9, 0.9, 0.9)],
    }
)
TARGET = Target("total_accuracy", 0.75)


def test_times_over_the_references_own() -> None:
    ratios = relative_time(RUNS, TARGET, "slowest").sel(scenario="slow")
    # Hours: 3, 2, none; 1, never, 1. The reference's third trial is not finished.
    np.testing.assert_allclose(ratios.sel(algorithm="slowest"), [1, 1, np.nan])
    np.testing.assert_allclose(ratios.sel(algorithm="sooner"), [1 / 3, np.inf, np.nan])


def test_what_is_never_reached_is_told_on_the_figure() -> None:
    drawing = relative_time_drawing(RUNS, TARGET, "slowest", "asked for")
    (panel,) = drawing.figure.axes
    assert panel.get_xscale() == "log"
    (beside,) = panel.child_axes
    # The third trial of the reference is not finished, so that two are compared.
    assert [text.get_text() for text in beside.get_yticklabels()] == ["2 of 2", "1 of 2"]
    assert beside.get_ylabel() == "trials that got there,\nof those compared"
    # Neither a dot nor a word lies on the arrow, whose point is within the panel.
    of_sooner = [line for line in panel.get_lines() if set(line.get_ydata()) == {1}]
    assert [line.get_marker() for line in of_sooner] == ["None", ">"]
    bar, point = (list(line.get_xdata()) for line in of_sooner)
    assert bar == [1 / 3, point[0]]
    assert 1 < point[0] < panel.get_xlim()[1]
    assert not panel.texts
    assert drawing.figure.get_supxlabel() == "time to total accuracy 75 % over that of slowest"
    assert (drawing.rows[1]["reached"], drawing.rows[1]["compared"]) == (1, 2)
    assert (drawing.rows[1]["ratio_median"], drawing.rows[1]["low"]) == (np.inf, 1 / 3)
    assert drawing.title == "Relative time to total accuracy 75 %"


def test_a_trial_whose_untrained_model_is_there_is_not_compared() -> None:
    runs = experiment(
        {("slowest", "slow"): [run(0.8, 0.8), run(0, 0, 0.8)], ("sooner", "slow"): [run(0.8, 0.9), run(0, 0.8)]}
    )
    np.testing.assert_allclose(relative_time(runs, TARGET, "slowest").sel(algorithm="sooner"), [[np.nan, 0.5]])


def test_a_target_for_those_who_name_none() -> None:
    # Medians over trials of the best: 0.85 and 0.8; nine tenths of 0.85 are 0.765.
    assert common_target(RUNS) == Target("total_accuracy", 0.76)
    assert common_target(RUNS.drop_vars("total_accuracy")) is None
    assert common_target(RUNS.assign(total_accuracy=0 * RUNS["total_accuracy"])) is None
