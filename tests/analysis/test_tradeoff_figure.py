from pathlib import Path

import pytest

from fedhpc.analysis.tradeoff_figure import tradeoff_drawing
from fedhpc.published import Published
from fedhpc.store import open_experiment
from fedhpc.store.run_file import write_run
from tests.analysis.test_table import small_sweep
from tests.store.records import null_record, run_path


def test_both_accuracies_and_the_papers_by_hand(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    block = {"table": "hard_table_22", "scenario": "slow", "rows": {"fedavg": "FedAvg"}}
    drawing = tradeoff_drawing(open_experiment(tmp_path), [Published.model_validate(block)])
    assert drawing is not None
    first = drawing.rows[0]
    assert (first["scenario"], first["algorithm"], first["trials"]) == ("slow", "fedavg", 3)
    assert (first["total_accuracy_percent"], first["straggler_accuracy_percent"]) == (75, 37.5)
    assert (first["straggler_accuracy_low"], first["straggler_accuracy_high"]) == (25, 50)
    assert first["published_straggler_accuracy"] == pytest.approx(46.9)
    assert "Hollow marks" in drawing.caption
    slow, even = drawing.figure.axes
    assert (slow.get_xlabel(), slow.get_ylabel()) == ("total accuracy (%)", "straggler accuracy (%)")
    assert [text.get_text() for text in drawing.figure.legends[0].get_texts()] == ["fedavg", "fedbuff"]
    # No run of fedbuff under 'even' is finished.
    assert len(even.containers) == 1


def test_a_null_task_has_neither(tmp_path: Path) -> None:
    run = null_record()
    write_run(run_path(tmp_path, run), run)
    assert tradeoff_drawing(open_experiment(tmp_path)) is None
