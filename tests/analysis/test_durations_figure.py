from pathlib import Path

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
    free, near = figure.axes
    assert (free.get_title(), near.get_title()) == ("free", "near")
    assert near.get_xlabel() == "time of a client update (deadlines)"
    assert free.get_xlabel() == "time of a client update (hours)"
    assert near.get_yscale() == free.get_yscale() == "log"
    lines = {str(line.get_label()): line for line in near.get_lines()}
    edges, counts = (np.asarray(values, float) for values in lines["fedavg"].get_data())
    np.testing.assert_allclose(edges, np.linspace(0, 4, 41))
    assert {round(edge, 6): count for edge, count in zip(edges[:-1], counts, strict=False) if count > 0} == {
        1.0: 2,
        2.0: 1,
        3.9: 1,
    }
    counts = np.asarray(lines["drop"].get_ydata(), float)
    assert (np.flatnonzero(counts > 0).tolist(), np.nansum(counts)) == ([9], 1)
    assert list(lines["_deadline"].get_xdata()) == [1, 1]
    assert "_deadline" not in {line.get_label() for line in free.get_lines()}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["drop", "fedavg"]


def test_a_figure_is_a_png(tmp_path: Path) -> None:
    keep(tmp_path, {("fedavg", "near", 0): ([10, 20, 40], None)})
    durations_figure(open_experiment(tmp_path), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_where_nobody_was_heard_there_is_nothing_to_draw(tmp_path: Path) -> None:
    keep(tmp_path, {("fedavg", "near", 0): ([], None)})
    with pytest.raises(ValueError, match="no duration to draw"):
        durations_drawn(open_experiment(tmp_path))
