from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from fedhpc.analysis.clients_figure import clients_drawing
from fedhpc.analysis.resources_figure import resources_drawing
from fedhpc.analysis.wasted_figure import wasted_drawing
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.analysis.test_resource_table import RUNS
from tests.store.records import null_record, run_path


def drawn(dataset: xr.Dataset) -> Figure:
    drawing = resources_drawing(dataset)
    assert drawing is not None
    return drawing.figure


def test_accuracy_over_client_time_by_hand() -> None:
    figure = drawn(RUNS)
    slow, even = figure.axes
    assert [panel.get_title() for panel in (slow, even)] == ["slow", "even"]
    assert (slow.get_ylabel(), even.get_ylabel()) == ("total accuracy (%)", "")
    assert {panel.get_xlabel() for panel in (slow, even)} == {"client time spent (virtual hours)"}
    safa, relay = slow.get_lines()
    # Medians over trials of the clients' time, and of the accuracy, at each evaluation.
    np.testing.assert_allclose(safa.get_xdata(), [0, 100, 1000])
    np.testing.assert_allclose(safa.get_ydata(), [10, 50, 80])
    band = slow.collections[0].get_datalim(slow.transData)
    assert (band.x0, band.x1, band.y0, band.y1) == pytest.approx((0, 1000, 10, 90))
    # As far as both of relay's trials go.
    np.testing.assert_allclose(relay.get_xdata(), [0, 10])
    np.testing.assert_allclose(relay.get_ydata(), [10, 70])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["safa", "relay"]


def test_seconds_where_nobody_spent_an_hour() -> None:
    short = RUNS.assign(resource_used=RUNS["resource_used"] / 7200)
    assert drawn(short).axes[0].get_xlabel() == "client time spent (virtual seconds)"
    wall = RUNS.assign_attrs(clock="wall")
    assert drawn(wall).axes[0].get_xlabel() == "client time spent (hours)"


def test_wasted_shares_by_hand() -> None:
    drawing = wasted_drawing(RUNS)
    assert drawing is not None
    assert drawing.figure.get_supxlabel() == "client time wasted (%)"
    assert "still under way when a run ends" in drawing.caption
    rows = drawing.rows
    told = {(row["scenario"], row["algorithm"]): row["wasted_percent_median"] for row in rows}
    assert told["slow", "safa"] == pytest.approx(80)
    assert told["slow", "relay"] == pytest.approx(20)
    assert told["even", "relay"] == pytest.approx(0)
    assert np.isnan(float(str(told["even", "safa"])))


def test_where_nothing_was_wasted_there_is_nothing_to_draw() -> None:
    assert wasted_drawing(RUNS.assign(resource_wasted=0 * RUNS["resource_wasted"])) is None


def test_clients_with_an_update_used_by_hand() -> None:
    figure = clients_drawing(RUNS).figure
    slow, even = figure.axes
    assert slow.get_ylabel() == "clients heard"
    assert slow.get_xlabel() == "time (virtual hours)"
    lines = {str(line.get_label()): line for line in slow.get_lines()}
    np.testing.assert_allclose(lines["safa"].get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(lines["safa"].get_ydata(), [0, 90, 98])
    # Not as if they had come evenly from one evaluation to the next.
    assert {line.get_drawstyle() for line in slow.get_lines()} == {"steps-post"}
    np.testing.assert_allclose(lines["relay"].get_ydata(), [0, 10])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["safa", "relay"]
    assert [line.get_label() for line in even.get_lines()] == ["relay"]


def test_a_null_task_has_clients_to_draw_but_no_accuracy(tmp_path: Path) -> None:
    run = null_record()
    write_run(run_path(tmp_path, run), run)
    dataset = open_experiment(tmp_path)
    assert resources_drawing(dataset) is None
    np.testing.assert_allclose(clients_drawing(dataset).figure.axes[0].get_lines()[0].get_ydata(), [0, 3, 4])
