import json
from pathlib import Path

import pytest

from fedhpc.store.progress import Progress, read_progress, write_progress

HALFWAY = Progress("running", 0.5, 1500, 3600.5, "", "logs/trial-0.log", "node1", 77, 1_700_000_000.25)


def test_progress_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "fedavg" / "trial-0.progress.json"
    write_progress(path, HALFWAY)
    assert read_progress(path) == HALFWAY
    failed = Progress("failed", 0.25, 10, 0.0, "ein Fehler: größer", None, "node1", 77, 0.0)
    write_progress(path, failed)
    assert read_progress(path) == failed
    assert [file.name for file in path.parent.iterdir()] == ["trial-0.progress.json"]


def test_half_a_file_is_no_progress(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    assert read_progress(path) is None
    assert read_progress(tmp_path) is None
    write_progress(path, HALFWAY)
    whole = path.read_bytes()
    for length in range(len(whole) - 2):
        path.write_bytes(whole[:length])
        assert read_progress(path) is None


@pytest.mark.parametrize("content", [b"[]", b"3", b"null", b"{}", b'{"state": "running"}', b"\xff\xfe", b"\x00" * 80])
def test_a_foreign_file_is_no_progress(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "progress.json"
    path.write_bytes(content)
    assert read_progress(path) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("fraction", None), ("fraction", "half"), ("fraction", float("nan")), ("message", None), ("updated_wall", "now")],
)
def test_a_field_of_another_kind_is_no_progress(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "progress.json"
    write_progress(path, HALFWAY)
    assert read_progress(path) == HALFWAY
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    assert read_progress(path) is None
