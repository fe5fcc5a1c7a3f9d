from pathlib import Path

import pytest

from fedhpc.analysis.report import write_report
from fedhpc.analysis.target_table import Target
from fedhpc.published import Published
from fedhpc.store.run_file import write_run
from tests.analysis.test_table import small_sweep
from tests.store.records import null_record, run_path

FIGURES = [
    "accuracy",
    "accuracy_over_resources",
    "clients",
    "durations",
    "participation",
    "relative_time",
    "rounds",
    "staleness",
    "tradeoff",
    "wasted",
]
OF_LEARNING = ["accuracy", "accuracy_over_resources", "relative_time", "tradeoff"]


def files(figures: list[str]) -> list[str]:
    """Of a report with these figures."""
    names = {f"{name}.{kind}" for name in figures for kind in ("csv", "pdf", "png")}
    return sorted(names | {"index.html", "resources.csv", "resources.txt", "table.csv", "table.txt"})


def test_a_report_is_a_table_and_a_picture(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    text = write_report(tmp_path)
    assert "37.5 [25.0, 50.0]" in text
    assert (tmp_path / "report" / "table.txt").read_text() == text
    assert (tmp_path / "report" / "table.csv").read_text().count("\n") == 5
    assert sorted(file.name for file in (tmp_path / "report").iterdir()) == files(FIGURES)


def test_a_null_task_has_no_accuracy_to_draw(tmp_path: Path) -> None:
    run = null_record()
    write_run(run_path(tmp_path, run), run)
    write_report(tmp_path)
    assert sorted(file.name for file in (tmp_path / "report").iterdir()) == files(
        [name for name in FIGURES if name not in OF_LEARNING]
    )


def test_a_folder_without_results_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no finished results"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_papers_table_and_a_target_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    small_sweep(tmp_path)
    block = {"table": "hard_table_22", "scenario": "slow", "rows": {"fedavg": "FedAvg", "fedbuff": "FedBuff"}}
    text = write_report(tmp_path, [Published.model_validate(block)], Target("total_accuracy", 0.8))
    written = {file.name: file.read_text() for file in (tmp_path / "report").glob("*.txt")}
    assert "used to total_accuracy 0.8" in written["resources.txt"]
    assert text == "\n".join(written[name] for name in ("table.txt", "target.txt", "comparison.txt"))
    # By hand: fedavg's straggler accuracies end at 0.5, 0.25 and 0.375; the paper's FedAvg at 46.9 %.
    assert "37.5 [25.0, 50.0]" in written["comparison.txt"]
    assert "-9.4 points" in written["comparison.txt"]
    assert (tmp_path / "report" / "comparison.csv").read_text().count("\n") == 7
    # The small record's total accuracy is 0.9 from the first evaluation on.
    assert "client trips to total_accuracy 0.8" in written["target.txt"]
    assert (tmp_path / "report" / "target.csv").read_text().count("\n") == 5
