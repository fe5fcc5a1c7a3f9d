from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from fedhpc.analysis.accuracy_figure import accuracy_drawing
from fedhpc.analysis.table import closing_table, format_table
from fedhpc.analysis.time_unit import time_unit
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.analysis.datasets import experiment
from tests.analysis.test_table import small_sweep
from tests.store.records import null_record, run_path


def drawn(dataset: xr.Dataset) -> Figure:
    drawing = accuracy_drawing(dataset)
    assert drawing is not None
    return drawing.figure


def test_lines_go_through_the_medians(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    figure = drawn(open_experiment(tmp_path))
    assert [panel.get_title() for panel in figure.axes] == ["slow", "even", "", ""]
    assert [panel.get_ylabel() for panel in figure.axes] == ["straggler accuracy (%)", "", "total accuracy (%)", ""]
    assert [panel.get_xlabel() for panel in figure.axes[2:]] == ["time (virtual hours)"] * 2
    lines = {str(line.get_label()): line for line in figure.axes[0].get_lines()}
    np.testing.assert_allclose(lines["fedavg"].get_xdata(), [0, 1 / 60, 3.0])
    np.testing.assert_allclose(lines["fedavg"].get_ydata(), [90, 90, 37.5])
    np.testing.assert_allclose(lines["fedbuff"].get_ydata(), [90, 90, 62.5])
    band = figure.axes[0].collections[0].get_datalim(figure.axes[0].transData)
    assert (band.y0, band.y1) == pytest.approx((25, 90))
    # No run of fedbuff under 'even' is finished.
    assert [line.get_label() for line in figure.axes[1].get_lines()] == ["fedavg"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fedavg", "fedbuff"]


def test_the_legend_lies_on_no_panel(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    figure = drawn(open_experiment(tmp_path))
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert not any(legend.overlaps(panel.get_tightbbox()) for panel in figure.axes)


def test_a_null_task_has_no_accuracy_to_draw(tmp_path: Path) -> None:
    run = null_record()
    write_run(run_path(tmp_path, run), run)
    assert accuracy_drawing(open_experiment(tmp_path)) is None


def test_the_numbers_of_a_line(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    drawing = accuracy_drawing(open_experiment(tmp_path))
    assert drawing is not None
    assert drawing.rows[2] == {
        "scenario": "slow",
        "algorithm": "fedavg",
        "variable": "straggler_accuracy",
        "time_s": 10_800.0,
        "median": 0.375,
        "low": 0.25,
        "high": 0.5,
        "trials": 3,
    }


def test_whatever_is_measured_has_a_panel() -> None:
    columns = {"time": [0.0, 7200.0], "total_accuracy": [0.1, 0.5], "dice": [0.2, 0.8], "perplexity": [900.0, 30.0]}
    scenarios = ["one", "two", "three", "four"]
    figure = drawn(experiment({("fedavg", scenario): [columns] for scenario in scenarios}))
    # Four scenarios stand below one another, each with its measures beside one another.
    assert [panel.get_title() for panel in figure.axes[::3]] == scenarios
    assert [panel.get_ylabel() for panel in figure.axes[:3]] == ["total accuracy (%)", "Dice (%)", "perplexity"]
    assert [panel.get_yscale() for panel in figure.axes[:3]] == ["linear", "linear", "log"]
    np.testing.assert_allclose(figure.axes[1].get_lines()[0].get_ydata(), [20, 80])
    np.testing.assert_allclose(figure.axes[2].get_lines()[0].get_ydata(), [900, 30])


def test_twenty_long_names_fit_their_legend() -> None:
    names = [f"{'a_rather_long_name_of_an_algorithm_' if n % 3 else 'short_'}{n}" for n in range(20)]
    runs = {"time": [0.0, 7200.0], "total_accuracy": [0.1, 0.5]}
    figure = drawn(experiment({(name, f"scenario_{s}"): [runs] for name in names for s in range(6)}))
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0
    assert legend.x1 <= figure.bbox.x1
    texts = [text.get_window_extent() for text in figure.legends[0].get_texts()]
    assert not any(one.overlaps(other) for one, other in combinations(texts, 2))
    assert not any(legend.overlaps(panel.get_tightbbox()) for panel in figure.axes)


def test_a_line_goes_as_far_as_every_trial() -> None:
    # The second trial ends early, at its target; the median of the rest would be the slow one's alone.
    runs = experiment(
        {
            ("fedavg", "slow"): [
                {"time": [0.0, 3600.0, 7200.0], "total_accuracy": [0.1, 0.3, 0.4]},
                {"time": [0.0, 3600.0], "total_accuracy": [0.1, 0.9]},
            ]
        }
    )
    (line,) = drawn(runs).axes[0].get_lines()
    np.testing.assert_allclose(line.get_xdata(), [0, 1])
    np.testing.assert_allclose(line.get_ydata(), [10, 60])


def test_seconds_of_a_clock_are_no_virtual_ones(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    dataset = open_experiment(tmp_path).assign_attrs(clock="wall")
    assert [panel.get_xlabel() for panel in drawn(dataset).axes[2:]] == ["time (hours)"] * 2
    short = dataset.assign_coords(time=dataset["time"] / 3600)
    assert [panel.get_xlabel() for panel in drawn(short).axes[2:]] == ["time (seconds)"] * 2
    lines = {str(line.get_label()): line for line in drawn(short).axes[0].get_lines()}
    np.testing.assert_allclose(lines["fedavg"].get_xdata(), [0, 1 / 60, 3.0])
    heading = format_table(closing_table(short), time_unit(short)).splitlines()[0]
    assert " seconds " in heading
    assert "virtual" not in heading


def test_each_scenario_has_its_own_times_and_a_line_at_0_is_not_on_the_axis() -> None:
    def runs(hours: float) -> list[dict[str, list[float]]]:
        return [{"time": [0.0, 3600 * hours], "straggler_accuracy": [0.0, 0.0], "total_accuracy": [0.1, 0.5]}]

    cells = {("fedavg", f"after_{hours}"): runs(hours) for hours in (1, 10, 100, 1000)}
    for few in (2, 4):  # side by side, and one below another
        figure = drawn(experiment(dict(list(cells.items())[:few])))
        for panel in figure.axes:
            (line,) = panel.get_lines()
            assert panel.get_xlim() == (0, pytest.approx(1.05 * line.get_xdata()[-1]))
            assert panel.get_ylim()[0] == pytest.approx(-0.03 * panel.get_ylim()[1])
