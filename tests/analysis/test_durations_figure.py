from pathlib import Path

import numpy as np

from fedhpc.analysis.durations_figure import durations_drawing
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
    drawing = durations_drawing(open_experiment(tmp_path))
    assert drawing is not None
    free, near = drawing.figure.axes
    assert [panel.get_title() for panel in (free, near)] == ["free", "near"]
    units = ["virtual hours", "deadlines"]
    assert [panel.get_xlabel() for panel in (free, near)] == [f"time of a client update ({unit})" for unit in units]
    assert [text.get_text() for text in free.get_yticklabels()] == ["drop", "fedavg"]

    def counts(scenario: str, algorithm: str) -> dict[float, object]:
        cell = {"scenario": scenario, "algorithm": algorithm}
        return {round(float(str(row["from"])), 6): row["count"] for row in drawing.rows if cell.items() <= row.items()}

    assert counts("near", "fedavg") == {1.0: 2, 2.0: 1, 3.9: 1}
    assert counts("near", "drop") == {0.9: 1}
    # Two hours are the longest here, so that a bin is a twentieth.
    assert counts("free", "fedavg") == {1.95: 1}
    assert counts("free", "drop") == {0.5: 2}
    assert [1, 1] in [list(line.get_xdata()) for line in near.get_lines()]
    # A ridge's highest bar has the same height in every algorithm, and a bar of one among two is seen.
    heights = [bars.get_data().values.max() - base for bars, base in zip(near.patches, (1, 0), strict=True)]
    np.testing.assert_allclose(heights, 0.9)
    low = near.patches[1].get_data().values
    assert sorted(set(np.round(low[low > 0], 6))) == [0.45, 0.9]


def test_where_nobody_was_heard_there_is_nothing_to_draw(tmp_path: Path) -> None:
    keep(tmp_path, {("fedavg", "near", 0): ([], None)})
    assert durations_drawing(open_experiment(tmp_path)) is None
