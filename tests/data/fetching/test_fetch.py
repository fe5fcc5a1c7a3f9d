import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.data.catalogue import DataSet
from fedhpc.data.fetching.failures import Changed, FetchFailed
from fedhpc.data.fetching.fetch import PlacesMissing, fetch
from fedhpc.data.fetching.records import read_records
from tests.data.fetching.archives import member, tar
from tests.data.fetching.conftest import Server

RANDOM = np.random.default_rng(0).bytes(200_000)
PASTE = {"data": {"source": "digits"}}


class Heard:
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def says(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def moved(self, done: int, total: int | None) -> None:
        pass


def data(*files: dict[str, Any], **others: Any) -> DataSet:
    told = {"title": "t", "paper": "p", "licence": "l", "used_by": [], "paste": PASTE}
    return DataSet.model_validate({**told, "files": list(files), **others})


def plain(server: Server, **others: Any) -> dict[str, Any]:
    server.files.setdefault("/file", RANDOM)
    return {"addresses": [f"{server.address}/file"], "to": "it/file.bin", **others}


def packed(server: Server, tmp_path: Path, **others: Any) -> dict[str, Any]:
    archive = tar(tmp_path / "made.tar.gz", member("top/train/a", RANDOM), member("top/test/b", b"text"))
    server.files["/archive"] = archive.read_bytes()
    archive.unlink()
    known: dict[str, Any] = {"addresses": [f"{server.address}/archive"], "to": "it/archive.tar.gz", "unpack": "tar.gz"}
    return {**known, "gives": ["it/train", "it/test"], "unpacked": "1 MB", **others}


def get(wanted: DataSet, folder: Path) -> list[str]:
    heard = Heard()
    fetch("it", wanted, folder, heard, pauses=(0.01,))
    return heard.sentences


def there(folder: Path) -> set[str]:
    """What lies in the folder beside checksums and the empty folder of unfinished things."""
    found = {str(place.relative_to(folder)) for place in folder.rglob("*") if place.is_file()}
    return {name for name in found if not name.startswith("checksums/")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_file_goes_to_its_place_and_is_remembered(server: Server, folder: Path) -> None:
    get(data(plain(server)), folder)
    assert there(folder) == {"it/file.bin"}
    assert (folder / "it/file.bin").read_bytes() == RANDOM
    record = read_records(folder, "it")["it/file.bin"]
    assert record.sha256 == hashlib.sha256(RANDOM).hexdigest()
    assert record.source == f"{server.address}/file"
    get(data(plain(server)), folder)
    assert len(server.asked) == 1


def test_an_archive_is_unpacked_and_not_kept(server: Server, folder: Path, tmp_path: Path) -> None:
    get(data(packed(server, tmp_path)), folder)
    assert there(folder) == {"it/train/a", "it/test/b"}
    assert set(read_records(folder, "it")) == {"it/archive.tar.gz", "it/train", "it/test"}


def test_an_archive_that_is_one_folder(server: Server, folder: Path, tmp_path: Path) -> None:
    get(data(packed(server, tmp_path, gives=["it"], whole=True, to="archive.tar.gz")), folder)
    assert there(folder) == {"it/train/a", "it/test/b"}


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_the_published_checksum_is_checked(server: Server, folder: Path, kind: str) -> None:
    right = hashlib.new(kind, RANDOM).hexdigest()
    get(data(plain(server, **{kind: right})), folder)
    (folder / "it/file.bin").unlink()
    server.files["/file"] = RANDOM[::-1]
    with pytest.raises(FetchFailed, match=f"the file has the {kind} [0-9a-f]+, and {right} is published"):
        get(data(plain(server, **{kind: right})), folder)
    assert there(folder) == set()


def test_a_part_of_another_version_is_told_by_the_checksum_and_fetched_anew(server: Server, folder: Path) -> None:
    server.tags, server.cuts = False, [60_000, 0, 0]
    with pytest.raises(FetchFailed):
        get(data(plain(server, sha256="0" * 64)), folder)
    server.files["/file"], server.cuts = RANDOM[::-1], []
    sentences = get(data(plain(server, sha256=hashlib.sha256(RANDOM[::-1]).hexdigest())), folder)
    assert (folder / "it/file.bin").read_bytes() == RANDOM[::-1]
    assert "what was there of it does not fit; downloading all of it" in sentences


def test_the_next_address_is_tried(server: Server, folder: Path) -> None:
    get(data(plain(server, addresses=[f"{server.address}/absent", f"{server.address}/file"])), folder)
    assert read_records(folder, "it")["it/file.bin"].source == f"{server.address}/file"


def test_without_a_network_the_addresses_and_the_place_are_told_and_what_is_put_there_is_taken(
    server: Server, folder: Path
) -> None:
    wanted = data(plain(server, addresses=["http://127.0.0.1:9/a", f"{server.address}/absent"]))
    with pytest.raises(FetchFailed) as failed:
        get(wanted, folder)
    assert str(failed.value).splitlines() == [
        f"it/file.bin could not be fetched; its place is {folder}/it/file.bin",
        "  http://127.0.0.1:9/a: Connection refused",
        f"  {server.address}/absent: the server answers 404 Not Found",
        "Download it where there is a network, put it at its place, and give this command again.",
    ]
    (folder / "it").mkdir()
    (folder / "it/file.bin").write_bytes(RANDOM)
    get(wanted, folder)
    assert read_records(folder, "it")["it/file.bin"].source == "by hand"


def test_one_reason_for_many_files_is_told_once(folder: Path) -> None:
    files = [{"addresses": [f"http://127.0.0.1:9/{name}"], "to": f"it/{name}"} for name in ("a", "b")]
    with pytest.raises(FetchFailed) as failed:
        get(data(*files), folder)
    assert str(failed.value).splitlines() == [
        f"it/a could not be fetched; its place is {folder}/it/a",
        "  http://127.0.0.1:9/a",
        f"it/b could not be fetched; its place is {folder}/it/b",
        "  http://127.0.0.1:9/b",
        "Each time: Connection refused",
        "Download each where there is a network, put it at its place, and give this command again.",
    ]


def test_an_archive_put_there_by_hand_is_unpacked_and_kept(server: Server, folder: Path, tmp_path: Path) -> None:
    wanted = packed(server, tmp_path)
    (folder / "it").mkdir(parents=True)
    (folder / "it/archive.tar.gz").write_bytes(server.files["/archive"])
    get(data(wanted), folder)
    assert server.asked == []
    assert there(folder) == {"it/train/a", "it/test/b", "it/archive.tar.gz"}
    # A wrong one is refused, and stays.
    (folder / "it/test/b").unlink()
    (folder / "it/test").rmdir()
    (folder / "it/archive.tar.gz").write_bytes(b"<html>")
    with pytest.raises(Changed, match=r"archive.tar.gz has changed since .* remove it and fetch it again"):
        get(data(wanted), folder)
    (folder / "checksums/it.json").unlink()
    with pytest.raises(FetchFailed, match=r"archive.tar.gz \(remove it, or put a good one there\): .* is damaged"):
        get(data(wanted), folder)
    assert there(folder) == {"it/train/a", "it/archive.tar.gz"}


def test_a_file_put_there_by_hand_is_checked_too(server: Server, folder: Path) -> None:
    (folder / "it").mkdir(parents=True)
    (folder / "it/file.bin").write_bytes(b"other")
    with pytest.raises(FetchFailed, match=r"file.bin \(put there by hand\) has the sha256"):
        get(data(plain(server, sha256=hashlib.sha256(RANDOM).hexdigest())), folder)


def test_a_file_that_has_changed_since_is_told(server: Server, folder: Path, tmp_path: Path) -> None:
    wanted = data(plain(server), packed(server, tmp_path))
    get(wanted, folder)
    (folder / "it/file.bin").write_bytes(RANDOM + b"!")
    (folder / "it/test/b").write_bytes(b"TEXT")
    with pytest.raises(Changed) as changed:
        get(wanted, folder)
    assert [line.split(" has changed")[0] for line in str(changed.value).splitlines()] == [
        f"{folder}/it/file.bin",
        f"{folder}/it/test",
    ]
    (folder / "checksums/it.json").unlink()
    get(wanted, folder)


def test_an_address_that_gives_another_file_than_before_is_told(server: Server, folder: Path) -> None:
    get(data(plain(server)), folder)
    (folder / "it/file.bin").unlink()
    server.files["/file"] = RANDOM[::-1]
    with pytest.raises(FetchFailed, match=r"on its first use .* it had"):
        get(data(plain(server)), folder)
    assert there(folder) == set()


def test_a_hostile_or_wrong_archive_leaves_nothing(server: Server, folder: Path, tmp_path: Path) -> None:
    wanted = packed(server, tmp_path)
    hostile = tar(tmp_path / "made", member("train/a", b"x"), member("../evil", b"x"), member("test/b", b"x"))
    server.files["/archive"] = hostile.read_bytes()
    with pytest.raises(
        FetchFailed, match=r"it/archive.tar.gz: the archive holds the path '\.\./evil', which leads out"
    ):
        get(data(wanted), folder)
    server.files["/archive"] = tar(tmp_path / "made", member("train/a", b"x")).read_bytes()
    with pytest.raises(FetchFailed, match="the archive does not hold train, test side by side"):
        get(data(wanted), folder)
    assert there(folder) == set()
    assert read_records(folder, "it") == {}


def test_a_folder_in_the_place_of_a_file_is_told(server: Server, folder: Path) -> None:
    (folder / "it" / "file.bin").mkdir(parents=True)
    with pytest.raises(FetchFailed, match=r"file\.bin is a folder, where the data set has a file"):
        get(data(plain(server)), folder)


@pytest.mark.parametrize(
    "damaged", ["", '{"it/file.bin": {"sha', '{"it/file.bin": {"sha256": 3, "source": "", "first_used": ""}}', "[]"]
)
def test_records_that_are_lost_are_not_made_anew_in_silence(server: Server, folder: Path, damaged: str) -> None:
    get(data(plain(server)), folder)
    records = folder / "checksums" / "it.json"
    records.write_text(damaged)
    (folder / "it" / "file.bin").write_bytes(b"another one")
    with pytest.raises(Changed, match=r"checksums/it\.json can no longer be read, which tells what it was"):
        get(data(plain(server)), folder)
    assert records.read_text() == damaged
    records.unlink()
    get(data(plain(server)), folder)
    assert read_records(folder, "it")["it/file.bin"].sha256 == hashlib.sha256(b"another one").hexdigest()


def test_an_address_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(FetchFailed, match=r"http://\[half: it is no address \("):
        get(data({"addresses": ["http://[half"], "to": "it/file.bin"}), folder)


def test_what_failed_does_not_keep_the_others(server: Server, folder: Path) -> None:
    server.files["/second"] = b"second"
    second = plain(server, addresses=[f"{server.address}/second"], to="it/second")
    with pytest.raises(FetchFailed, match=r"it/file.bin could not be fetched"):
        get(data(plain(server, addresses=[f"{server.address}/absent"]), second), folder)
    assert there(folder) == {"it/second"}


def test_by_hand_says_what_to_do_until_it_is_there(server: Server, folder: Path) -> None:
    wanted = data(plain(server), places=["it/faces"], by_hand="Ask the authors.\n")
    with pytest.raises(PlacesMissing) as missing:
        get(wanted, folder)
    assert str(missing.value).splitlines() == ["Ask the authors.", "The places:", f"  {folder}/it/faces"]
    (folder / "it/faces").mkdir()
    (folder / "it/faces/one").write_bytes(b"x")
    get(wanted, folder)
    assert read_records(folder, "it")["it/faces"].source == "by hand"


def test_two_at_once_take_turns(server: Server, folder: Path) -> None:
    server.seconds_a_block = 0.02
    failures: list[BaseException] = []

    def one() -> None:
        try:
            get(data(plain(server)), folder)
        except BaseException as failure:
            failures.append(failure)

    # In processes of their own the lease tells them apart as well: test_killed below.
    first, second = threading.Thread(target=one), threading.Thread(target=one)
    first.start()
    second.start()
    first.join()
    second.join()
    assert failures == []
    assert (folder / "it/file.bin").read_bytes() == RANDOM
    assert len(server.asked) == 1


COMMAND = """
import json, sys
from pathlib import Path
from fedhpc.data.catalogue import DataSet
from fedhpc.data.fetching.fetch import fetch
class Watch:
    def says(self, sentence): print(sentence, flush=True)
    def moved(self, done, total): pass
fetch("it", DataSet.model_validate(json.loads(sys.argv[1])), Path(sys.argv[2]), Watch())
"""


def process(wanted: DataSet, folder: Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", COMMAND, wanted.model_dump_json(), str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_killed_in_the_middle_it_goes_on_and_another_waits_for_it(server: Server, folder: Path) -> None:
    server.seconds_a_block = 0.2
    wanted = data(plain(server))
    killed = process(wanted, folder)
    part = folder / ".fetching/it/0.part"
    until = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size >= 30_000):
        assert time.monotonic() < until
        time.sleep(0.01)
    waiting = process(wanted, folder)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "another fetch of it is at work; this one waits for it\n"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    size = part.stat().st_size
    assert not (folder / "it/file.bin").exists()
    server.seconds_a_block = 0
    _, errors = waiting.communicate(timeout=20)
    assert (waiting.returncode, errors) == (0, "")
    assert (folder / "it/file.bin").read_bytes() == RANDOM
    assert server.asked[1:] == [("/file", f"bytes={size}-")]
    assert json.loads((folder / "checksums/it.json").read_text())["it/file.bin"]["sha256"]
