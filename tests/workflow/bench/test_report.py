"""The table, and the file that it goes with."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from fedhpc.mistakes import ExperimentError
from workflow.bench.report import refuse_unwritable, table, write_report

FIGURES = {
    "B": {
        "ratio_to_bare_loop": {"min": 0.5, "median": 2.25, "max": 12345.6},
        "client_updates": 6,
        "seconds": {"ours": [1.0], "bare": [2.0]},
    },
    "memory": {"rank_0": {"private_bytes": 123456789, "peak_resident_bytes": None}},
}


def test_a_row_for_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=140).print(table(FIGURES))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert rows == [
        ["workload", "figure", "min", "median", "max"],
        ["B", "ratio", "to", "bare", "loop", "0.5", "2.25", "12,346"],
        ["client", "updates", "6"],
        ["memory", "rank", "0", "private", "bytes", "123,456,789"],
    ]


def test_a_file_that_was_there_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "new" / "speed.json"
    for content in ({"repeats": 1}, {"repeats": 2}):
        refuse_unwritable(file)
        write_report(content, file)
        assert json.loads(file.read_text()) == content
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_cannot_be_written_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    for file, told in ((tmp_path, "this is a folder"), (tmp_path / "plain" / "speed.json", "cannot be written")):
        with pytest.raises(ExperimentError) as refused:
            refuse_unwritable(file)
        (mistake,) = refused.value.mistakes
        assert mistake.startswith("--json: ")
        assert told in mistake
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]
