from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.analysis.durations_figure import durations_drawn, durations_figure
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.store.records import record, run_path


def keep(folder: Path, cells: dict[tuple[str, str, int], tuple[list[float], float | None]]) -> None:
    for (algorithm, scenario, trial), (durations, deadline) in cells.items():
        attributes = {} if deadline is None else {"deadline": deadline}
        one = record(algorithm, scenario, trial, client_updates={"duration": durations}, attributes=attributes)
        write_run(run_path(folder, one), one)


def test_histograms_by_hand(tmp_path: Path) -> None:
    keep(
        tmp_path,
        {
            # In deadlines: 1, 2, 4 and, of the second trial, 1; the longest is 4, so that a bin is a tenth.
            ("fedavg", "near", 0): ([10, 20, 40], 10),
            ("fedavg", "near", 1): ([5], 5),
            ("drop", "near", 0): ([9.95], 10),
            ("fedavg", "free", 0): ([7200.0], None),
            ("drop", "free", 0): ([1800.0, 1800.0], None),
        },
    )
    figure = durations_drawn(open_experiment(tmp_path))
    panels = np.reshape(figure.axes, (2, 2))
    assert [panel.get_title() for panel in panels[0]] == ["free", "near"]
    assert [panel.get_ylabel() for panel in panels[:, 0]] == ["drop", "fedavg"]
    units = ["virtual hours", "deadlines"]
    assert [panel.get_xlabel() for panel in panels[1]] == [f"time of a client update ({unit})" for unit in units]
    assert {panel.get_yscale() for panel in figure.axes} == {"log"}
    assert {panel.get_ylim() for panel in figure.axes} == {(0.5, 4.0)}  # no bar is cut off

    def counts(panel: Any) -> dict[float, float]:
        (bars,) = panel.patches
        values, edges, _ = bars.get_data()
        np.testing.assert_allclose(edges, np.linspace(0, edges[-1], 41))
        return {round(edge, 6): count for edge, count in zip(edges[:-1], values, strict=True) if count != 0.5}

    free, near = panels.T
    assert counts(near[1]) == {1.0: 2, 2.0: 1, 3.9: 1}
    assert counts(near[0]) == {0.9: 1}
    # Two hours are the longest here, so that a bin is a twentieth.
    assert counts(free[1]) == {1.95: 1}
    assert counts(free[0]) == {0.5: 2}
    assert [list(line.get_xdata()) for panel in near for line in panel.get_lines()] == [[1, 1], [1, 1]]
    assert not [line for panel in free for line in panel.get_lines()]


def test_a_figure_is_a_png(tmp_path: Path) -> None:
    keep(tmp_path, {("fedavg", "near", 0): ([10, 20, 40], None)})
    durations_figure(open_experiment(tmp_path), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_where_nobody_was_heard_there_is_nothing_to_draw(tmp_path: Path) -> None:
    keep(tmp_path, {("fedavg", "near", 0): ([], None)})
    with pytest.raises(ValueError, match="no duration to draw"):
        durations_drawn(open_experiment(tmp_path))
