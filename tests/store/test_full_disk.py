"""A disk that fills up or may not be written to: one sentence, nothing broken, and the same command goes on."""

import errno
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fedhpc.data.catalogue import DataSet
from fedhpc.data.fetching.fetch import fetch
from fedhpc.store.lease import take_lease
from fedhpc.store.replacing import NotWritable, replacing, temporary_beside
from tests.workflow.experiments import BUFFERED, digits, fedhpc, results, same_numbers, started, wait_until, write


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB of its own."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = os.getuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small file system takes the right to mount one")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Takes all the room that is left."""
    filling = place / "filling"
    with filling.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert os.statvfs(place).f_bavail == 0
    return filling


def test_a_folder_that_is_full_cannot_be_held(small: Path) -> None:
    fill(small)
    with pytest.raises(NotWritable, match=r"lease\.json cannot be written: No space left on device; make room, and"):
        take_lease(small)
    assert [path.name for path in small.iterdir()] == ["filling"]


def test_what_cannot_be_written_stays_as_it_was(small: Path) -> None:
    path = small / "file"
    path.write_text("before")
    filling = fill(small)
    with pytest.raises(NotWritable) as full, replacing(path) as temporary:
        temporary.write_bytes(bytes(100_000))
    assert (
        str(full.value) == f"{path} cannot be written: No space left on device; make room, and the same command goes on"
    )
    assert full.value.errno == errno.ENOSPC
    assert str(pickle.loads(pickle.dumps(full.value))) == str(full.value)
    assert (path.read_text(), sorted(small.iterdir())) == ("before", [path, filling])
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    with (
        pytest.raises(NotWritable, match="Read-only file system; make its folder writable"),
        replacing(path) as temporary,
    ):
        temporary.write_text("after")
    assert path.read_text() == "before"


@pytest.mark.parametrize("mend", ["room", "right"])
def test_a_run_ends_in_a_sentence_and_the_same_command_goes_on(small: Path, tmp_path: Path, mend: str) -> None:
    file = write(tmp_path / "small.yaml", digits(1500, algorithms={"fedbuff": BUFFERED}))
    cell = ["--algorithm", "fedbuff", "--scenario", "slow", "--trial", 0, "--checkpoint-seconds", 0.2]
    assert fedhpc("run", file, *cell, "--output", tmp_path / "undisturbed").returncode == 0
    folder, log = small / "results", tmp_path / "log"
    with started("run", file, *cell, "--output", folder, log=log) as run:
        wait_until(lambda: list(folder.glob("*/*/*.checkpoint")))
        if mend == "room":
            filling = fill(small)
        else:
            wait_until(
                lambda: not subprocess.run(["mount", "-o", "remount,ro", str(small)], capture_output=True).returncode
            )
        assert run.wait(60) == 2
    told = log.read_text()
    assert "cannot be written: " in told
    assert told.count("\n") == 1
    assert not results(folder)
    assert not list(folder.glob("**/*.tmp.*"))
    if mend == "room":
        filling.unlink()
    else:
        subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    done = fedhpc("run", file, *cell, "--output", folder)
    assert done.returncode == 0, done.stderr
    assert "goes on from server version" in done.stderr
    assert same_numbers(folder, tmp_path / "undisturbed")


def test_a_download_onto_a_full_disk_is_told_and_goes_on(small: Path, tmp_path: Path) -> None:
    content = os.urandom(2_000_000)
    (tmp_path / "file").write_bytes(content)
    file = {"addresses": [f"file://{tmp_path}/file"], "to": "file"}
    known = {"title": "t", "paper": "p", "licence": "l", "used_by": [], "paste": {"data": {}}, "files": [file]}
    wanted = DataSet.model_validate(known)
    filling = small / "filling"
    filling.write_bytes(bytes(3_000_000))
    with pytest.raises(NotWritable, match="No space left on device; make room, and the same command goes on"):
        fetch("it", wanted, small, Silent())
    assert not (small / "file").exists()
    filling.unlink()
    fetch("it", wanted, small, Silent())
    assert (small / "file").read_bytes() == content


class Silent:
    def says(self, sentence: str) -> None:
        pass

    def moved(self, done: int, total: int | None) -> None:
        pass


def test_something_else_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    mend = "move what is in the place of it or of its folder, and the same command goes on"
    for path in (tmp_path / "file" / "a", tmp_path / "folder", tmp_path / "loop" / "a"):
        with pytest.raises(NotWritable) as error, replacing(path) as temporary:
            temporary.write_text("")
        assert str(error.value).startswith(f"{path} cannot be written: ")
        assert str(error.value).endswith(mend)
    assert len(list(tmp_path.iterdir())) == 3


def test_what_a_killed_process_left_is_taken_away_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "table[1].txt"
    code = (
        "import os, sys; from pathlib import Path; from fedhpc.store.replacing import replacing\n"
        "with replacing(Path(sys.argv[1])) as temporary: temporary.write_text('half'); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    (left,) = tmp_path.iterdir()
    living = temporary_beside(path)
    living.write_text("another thread's")
    elsewhere = tmp_path / "table[1].txt.tmp.another-host.1.999999999.0"
    elsewhere.write_text("another host's")
    with replacing(path) as temporary:
        temporary.write_text("whole")
    assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted([path, living, elsewhere])
