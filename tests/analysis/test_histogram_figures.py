"""Rounds, staleness and participation of the small record's runs: by hand."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import same_color

from fedhpc.analysis.coreset_error_figure import coreset_error_drawing
from fedhpc.analysis.drawing import Drawing
from fedhpc.analysis.panels import COLOURS
from fedhpc.analysis.participation_figure import first_numbers, participation_drawing
from fedhpc.analysis.rounds_figure import round_lengths, rounds_drawing
from fedhpc.analysis.staleness_figure import staleness_drawing
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.store.records import record, run_path

UPDATES = {"server_update_time": [100.0, 100.0, 400.0], "staleness": [0.0, 1.0, 39.0]}


def sweep(folder: Path) -> None:
    for run in (record("fedavg", updates=3, server_updates=UPDATES), record("fedbuff", updates=2)):
        write_run(run_path(folder, run), run)


def counts(drawing: Drawing | None, algorithm: str) -> list[tuple[float, object]]:
    assert drawing is not None
    rows = [row for row in drawing.rows if row["algorithm"] == algorithm]
    return [(float(str(row["to"])), row["count"]) for row in rows]


def test_round_lengths(tmp_path: Path) -> None:
    sweep(tmp_path)
    dataset = open_experiment(tmp_path)
    lengths = round_lengths(dataset).sel(scenario="per_domain", trial=0)
    np.testing.assert_array_equal(lengths.sel(algorithm="fedavg"), [100, 0, 300])
    np.testing.assert_array_equal(lengths.sel(algorithm="fedbuff"), [1800, 1800, np.nan])
    drawing = rounds_drawing(dataset)
    assert [count for _, count in counts(drawing, "fedavg")] == [2, 1]  # what takes no time is with the shortest
    assert [count for _, count in counts(drawing, "fedbuff")] == [2]
    assert drawing is not None
    assert drawing.figure.axes[0].get_xscale() == "log"


def test_staleness(tmp_path: Path) -> None:
    sweep(tmp_path)
    # The largest is 39, so that a bin is 1 wide; those without staleness are around 0.
    drawing = staleness_drawing(open_experiment(tmp_path))
    assert counts(drawing, "fedavg") == [(0.5, 1), (1.5, 1), (39.5, 1)]
    assert sum(int(str(count)) for _, count in counts(drawing, "fedbuff")) == 2


def test_coreset_errors_of_those_who_recorded_them(tmp_path: Path) -> None:
    errors = {**UPDATES, "coreset_error": [np.nan, 0.0, 19.5]}
    for run in (record("fedavg", updates=3), record("fedcore", updates=3, server_updates=errors)):
        write_run(run_path(tmp_path, run), run)
    drawing = coreset_error_drawing(open_experiment(tmp_path))
    assert drawing is not None
    # The largest is 19.5, so that a bin is half as wide as it was of 39; the update without a coreset is in none.
    assert counts(drawing, "fedcore") == [(0.25, 1), (19.75, 1)]
    assert counts(drawing, "fedavg") == []
    # Of the second algorithm's colour, as in the other figures.
    (bars,) = drawing.figure.axes[0].patches
    assert same_color(bars.get_facecolor()[:3], COLOURS[1])
    sweep(tmp_path / "none")
    assert coreset_error_drawing(open_experiment(tmp_path / "none")) is None


def test_participation(tmp_path: Path) -> None:
    sweep(tmp_path)
    drawing = participation_drawing(open_experiment(tmp_path))
    # The record's clients had 8, 7, 5 and 0 updates used; the last is the straggler.
    rows = [(row["clients"], row["from"], row["count"]) for row in drawing.rows if row["algorithm"] == "fedavg"]
    assert rows == [("standard", 4.5, 1), ("standard", 6.5, 1), ("standard", 7.5, 1), ("straggler", -0.5, 1)]
    (panel,) = drawing.figure.axes
    assert panel.get_xscale() == "linear"
    assert [text.get_text() for text in drawing.figure.legends[0].get_texts()] == [
        "standard clients",
        "straggler clients",
    ]


def used(clients: list[float], slow: list[int]) -> xr.Dataset:
    """One run whose clients had so many of their updates used."""
    axes = ("algorithm", "scenario", "trial", "client")
    return xr.Dataset(
        {
            "updates_aggregated_of_client": (axes, [[[clients]]]),
            "straggler": (axes, [[[slow]]]),
        },
        {"algorithm": ["fedavg"], "scenario": ["slow"], "trial": [0]},
    )


def test_whoever_was_heard_is_not_at_0_however_often_another_was() -> None:
    drawing = participation_drawing(used([0, 1, 9, 9, 780], [0] * 5))
    (panel,) = drawing.figure.axes
    rows = [(row["from"], row["to"], row["count"]) for row in drawing.rows]
    assert rows[:2] == [(-0.5, 0.5, 1), (0.5, 1.5, 1)]
    assert [count for _, _, count in rows[2:]] == [2, 1]
    assert 1.5 <= float(str(rows[2][0])) < 9 < float(str(rows[2][1]))
    assert panel.get_xlim() == (-0.5, 780.5)
    assert [text.get_text() for text in panel.get_xticklabels()] == ["0", "1", "3", "10", "30", "100", "300"]
    # 1, 3 and 7 are one less than 2, 4 and 8, and so stand at equal distances, where there is a place for 0 too.
    places = panel.transData.transform([(number, 0) for number in (0, 1, 3, 7)])[:, 0]
    np.testing.assert_allclose(np.diff(places), places[1] - places[0])


@pytest.mark.parametrize("others", [[], [1, 1]])
@pytest.mark.parametrize("most", [0, 1, 39, 40, 41, 100, 780, 10**6])
def test_every_number_has_one_bin_and_0_its_own(most: int, others: list[int]) -> None:
    used_updates = np.array([*others, most])
    firsts, by_factors = first_numbers(used_updates)
    assert (firsts[0], firsts[1]) == (0, 1)
    assert firsts[-2] <= used_updates.max() < firsts[-1]
    assert (np.diff(firsts) > 0).all()
    assert len(firsts) <= 42
    assert by_factors == (most > 39 and len(others) > 0)


def test_clients_who_differ_little_stand_along_an_axis_of_equal_steps() -> None:
    # 0 for itself; then the most, 100, takes 34 bins of 3 numbers: 1 to 3, ..., 79 to 81, ..., 100 to 102.
    drawing = participation_drawing(used([0, 80, 81, 82, 100], [0] * 5))
    (panel,) = drawing.figure.axes
    assert panel.get_xscale() == "linear"
    rows = [(row["from"], row["to"], row["count"]) for row in drawing.rows]
    assert rows == [(-0.5, 0.5, 1), (78.5, 81.5, 2), (81.5, 84.5, 1), (99.5, 102.5, 1)]
    assert "Other bars are of several numbers." in drawing.caption
    assert "factors" not in drawing.caption


def test_rounds_stand_at_the_same_place_in_all_panels(tmp_path: Path) -> None:
    for scenario, second in (("slow", 1000.0), ("even", 0.1)):
        times = {"server_update_time": [second, 2 * second], "staleness": [0.0, 0.0]}
        run = record("fedavg", scenario, updates=2, server_updates=times)
        write_run(run_path(tmp_path, run), run)
    drawing = rounds_drawing(open_experiment(tmp_path))
    assert drawing is not None
    limits = [panel.get_xlim() for panel in drawing.figure.axes]
    assert limits[0] == limits[1] == pytest.approx((0.1 / 1.05, 1050.0))
    # The short scenario's are not taken for shorter than all that is drawn.
    (even,) = (row for row in drawing.rows if row["scenario"] == "even")
    assert float(str(even["from"])) < 0.1 < float(str(even["to"]))
