"""What files and folders hold, and what is remembered of large ones from one process to the next."""

import hashlib
import json
import os
import subprocess
import sys
import time

import pytest

from fedhpc.data.paths import content_of
from fedhpc.data.remembered import remember, remembered

LARGE = 2**26
"""Bytes from which on a content is remembered; sparse files of zeros make them quickly."""
FORGED = "sha256:" + "0" * 64


def _sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/fedhpc/contents"


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, LARGE)
    return path


def _elsewhere(path):
    """The content as another process tells it."""
    told = "import sys, pathlib; from fedhpc.data.paths import content_of; print(content_of(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", told, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_folder_s_content_is_that_of_its_files_and_their_names(tmp_path):
    folder = tmp_path / "f"
    (folder / "a").mkdir(parents=True)
    for name, content in (("a/x", b"1"), ("a.b", b"2"), ("a-b", b"3")):
        (folder / name).write_bytes(content)
    listed = f"a/x {_sha256(b'1')}\na-b {_sha256(b'3')}\na.b {_sha256(b'2')}\n"
    assert content_of(folder) == _sha256(listed.encode())
    assert content_of(folder / "a/x") == _sha256(b"1")
    (folder / "a/x").rename(folder / "a/y")
    assert content_of(folder) == _sha256(listed.replace("a/x", "a/y").encode())
    (folder / "a.b").write_bytes(b"4")
    assert content_of(folder) == _sha256(listed.replace("a/x", "a/y").replace(_sha256(b"2"), _sha256(b"4")).encode())


def test_a_small_file_is_not_remembered(tmp_path, cache):
    (tmp_path / "small").write_bytes(b"1")
    assert content_of(tmp_path / "small") == _sha256(b"1")
    assert not cache.exists()


def test_a_large_file_is_remembered_while_it_stays_as_it_is(large, cache):
    true = _sha256(bytes(LARGE))
    time.sleep(2.1)  # what changed just now is not remembered yet
    assert content_of(large) == true
    (entry,) = cache.iterdir()
    # Another process takes it from there: it believes whatever stands there.
    found = json.loads(entry.read_text())
    assert (found["path"], found["content"]) == (str(large), true)
    entry.write_text(json.dumps(found | {"content": FORGED}))
    assert _elsewhere(large) == FORGED
    # Another content of the same size, with the time of change of the old one.
    status = large.stat()
    with large.open("r+b") as file:
        file.write(b"1")
    os.utime(large, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert content_of(large) == _sha256(b"1" + bytes(LARGE - 1))
    assert json.loads(entry.read_text())["content"] == FORGED


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"path": 1}', "\xff"])
def test_a_damaged_memory_is_none(tmp_path, cache, content):
    path = tmp_path / "d"
    remember(path, "now", FORGED)
    assert (remembered(path, "now"), remembered(path, "then")) == (FORGED, None)
    (entry,) = cache.iterdir()
    found = entry.read_text()
    for damaged in (content, found.replace("sha256:0", "sha256:x"), found.replace(str(path), "other")):
        entry.write_text(damaged, "latin-1")
        assert remembered(path, "now") is None
    remember(path, "now", FORGED)
    assert remembered(path, "now") == FORGED


def test_without_a_cache_folder_all_goes_on(large, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert content_of(large) == _sha256(bytes(LARGE))
