from pathlib import Path

import numpy as np
import pytest

from fedhpc.analysis.figures import accuracy_figure, drawn
from fedhpc.analysis.table import closing_table, format_table
from fedhpc.analysis.time_unit import time_unit
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.analysis.datasets import experiment
from tests.analysis.test_table import small_sweep
from tests.store.records import null_record, run_path


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


def test_a_figure_is_a_png(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    accuracy_figure(open_experiment(tmp_path), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_a_null_task_has_no_accuracy_to_draw(tmp_path: Path) -> None:
    run = null_record()
    write_run(run_path(tmp_path, run), run)
    with pytest.raises(ValueError, match="no accuracy to draw"):
        accuracy_figure(open_experiment(tmp_path), tmp_path / "figure.png")
    assert not (tmp_path / "figure.png").exists()


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
