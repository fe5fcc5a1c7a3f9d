from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from fedhpc.analysis.clients_figure import clients_drawn, clients_figure
from fedhpc.analysis.resources_figure import resources_drawn, resources_figure
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.analysis.test_resource_table import RUNS
from tests.analysis.test_table import small_sweep
from tests.store.records import null_record, run_path


def test_accuracy_over_learner_time_by_hand() -> None:
    figure = resources_drawn(RUNS)
    slow, even = figure.axes
    assert [panel.get_title() for panel in (slow, even)] == ["slow", "even"]
    assert (slow.get_ylabel(), even.get_ylabel()) == ("total accuracy (%)", "")
    assert {panel.get_xlabel() for panel in (slow, even)} == {"learner time spent (virtual hours)"}
    safa, relay = slow.get_lines()
    # Medians over trials of the learner time, and of the accuracy, at each evaluation.
    np.testing.assert_allclose(safa.get_xdata(), [0, 100, 1000])
    np.testing.assert_allclose(safa.get_ydata(), [10, 50, 80])
    band = slow.collections[0].get_datalim(slow.transData)
    assert (band.x0, band.x1, band.y0, band.y1) == pytest.approx((0, 1000, 10, 90))
    # As far as both of relay's trials go.
    np.testing.assert_allclose(relay.get_xdata(), [0, 10])
    np.testing.assert_allclose(relay.get_ydata(), [10, 70])
    legends = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in (slow, even)]
    assert legends == [["safa 80 %", "relay 20 %"], ["relay 0 %"]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["safa", "relay"]


def test_seconds_where_nobody_spent_an_hour() -> None:
    short = RUNS.assign(resource_used=RUNS["resource_used"] / 7200)
    assert resources_drawn(short).axes[0].get_xlabel() == "learner time spent (virtual seconds)"
    wall = RUNS.assign_attrs(clock="wall")
    assert resources_drawn(wall).axes[0].get_xlabel() == "learner time spent (hours)"


def test_the_legends_lie_on_no_panel_and_within_the_picture() -> None:
    figure = resources_drawn(RUNS)
    figure.draw_without_rendering()
    legends = [each.get_window_extent() for each in [*(panel.get_legend() for panel in figure.axes), *figure.legends]]
    for legend in legends:
        assert figure.bbox.y0 <= legend.y0
        assert legend.x1 <= figure.bbox.x1
        for panel in figure.axes:
            labels = [panel.xaxis.label.get_window_extent(), panel.get_window_extent()]
            assert not any(legend.overlaps(each) for each in labels)
    assert not any(one.overlaps(other) for one, other in combinations(legends, 2))


def test_clients_with_an_update_used_by_hand() -> None:
    figure = clients_drawn(RUNS)
    slow, even = figure.axes
    assert slow.get_ylabel() == "clients with an update used"
    assert slow.get_xlabel() == "time (virtual hours)"
    lines = {str(line.get_label()): line for line in slow.get_lines()}
    np.testing.assert_allclose(lines["safa"].get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(lines["safa"].get_ydata(), [0, 90, 98])
    np.testing.assert_allclose(lines["relay"].get_ydata(), [0, 10])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["safa", "relay"]
    assert [line.get_label() for line in even.get_lines()] == ["relay"]


def test_figures_are_pngs(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    dataset = open_experiment(tmp_path)
    for draw in (resources_figure, clients_figure):
        draw(dataset, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_a_null_task_has_clients_to_draw_but_no_accuracy(tmp_path: Path) -> None:
    run = null_record()
    write_run(run_path(tmp_path, run), run)
    dataset = open_experiment(tmp_path)
    with pytest.raises(ValueError, match="no accuracy to draw"):
        resources_figure(dataset, tmp_path / "figure.png")
    assert not (tmp_path / "figure.png").exists()
    np.testing.assert_allclose(clients_drawn(dataset).axes[0].get_lines()[0].get_ydata(), [0, 3, 4])
