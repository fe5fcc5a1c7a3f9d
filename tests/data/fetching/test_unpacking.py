import bz2
import gzip
import lzma
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedhpc.data.fetching.failures import BadArchive
from fedhpc.data.fetching.unpacking import content_folder, found_in, unpack
from tests.data.fetching.archives import DEVICE, LINK, member, tar, zipped

RANDOM = np.random.default_rng(0).bytes(100_000)


def unpacked(archive: Path, kind: str, most: int = 10**6) -> dict[str, bytes]:
    folder = archive.parent / "unpacked"
    folder.mkdir()
    unpack(archive, kind, folder, most, "single", lambda done, total: None)
    assert not any(place.is_symlink() for place in folder.rglob("*"))
    return {str(place.relative_to(folder)): place.read_bytes() for place in folder.rglob("*") if place.is_file()}


def nothing_outside(archive: Path) -> None:
    """No file lies beside the folder, nor was anything written above it."""
    assert {place.name for place in archive.parent.iterdir()} <= {archive.name, "unpacked"}
    assert not (archive.parent.parent / "evil").exists()
    assert not Path("/tmp/fedhpc-evil").exists()


@pytest.mark.parametrize(("kind", "mode"), [("tar.gz", "w:gz"), ("tar.bz2", "w:bz2")])
def test_a_tar_is_unpacked(tmp_path: Path, kind: str, mode: str) -> None:
    folder = member("./data", kind=tarfile.DIRTYPE)
    archive = tar(tmp_path / "archive", folder, member("./data/a", RANDOM), member("b/c", b"text"), mode=mode)
    assert unpacked(archive, kind) == {"data/a": RANDOM, "b/c": b"text"}


def test_a_zip_is_unpacked(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "archive", ("data/", b"", 0), ("data/a", RANDOM, 0), ("b/c", b"text", 0o100000))
    assert unpacked(archive, "zip") == {"data/a": RANDOM, "b/c": b"text"}


@pytest.mark.parametrize(("kind", "compress"), [("gz", gzip.compress), ("lzma", lzma.compress)])
def test_a_compressed_file_is_unpacked(tmp_path: Path, kind: str, compress) -> None:
    (tmp_path / "archive").write_bytes(compress(RANDOM))
    assert unpacked(tmp_path / "archive", kind) == {"single": RANDOM}


def test_links_within_become_the_files_they_point_to(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "archive",
        member("data/first", kind=tarfile.SYMTYPE, link="second"),
        member("data/second", kind=tarfile.SYMTYPE, link="../text"),
        member("text", b"text"),
        member("again", kind=tarfile.LNKTYPE, link="text"),
    )
    text = b"text"
    assert unpacked(archive, "tar.gz") == {"data/first": text, "data/second": text, "text": text, "again": text}


HOSTILE = {
    "absolute": ([member("/tmp/fedhpc-evil", b"x")], "leads out of its folder"),
    "upwards": ([member("a/../../evil", b"x")], "leads out of its folder"),
    "link out": ([member("a", kind=tarfile.SYMTYPE, link="../evil")], "leads out of its folder"),
    "link to root": ([member("a", kind=tarfile.SYMTYPE, link="/etc/passwd")], "leads out of its folder"),
    "hard link out": ([member("a", kind=tarfile.LNKTYPE, link="../evil")], "leads out of its folder"),
    "through a link": (
        [member("a", kind=tarfile.SYMTYPE, link="/tmp"), member("a/fedhpc-evil", b"x")],
        "leads out of its folder",
    ),
    "link to nothing": (
        [member("a", kind=tarfile.SYMTYPE, link="b")],
        "a link from 'a' to 'b', which is no file of it",
    ),
    "link to itself": ([member("a", kind=tarfile.SYMTYPE, link="a")], "which is no file of it"),
    "device": ([member("a", kind=tarfile.CHRTYPE)], "holds a device, 'a'"),
    "pipe": ([member("a", kind=tarfile.FIFOTYPE)], "holds a device, 'a'"),
    "twice": ([member("a", b"x"), member("a", b"y")], "holds 'a' twice"),
    "file as folder": ([member("a", b"x"), member("a/b", b"y")], "cannot be unpacked"),
    "no name": ([member(".", b"x")], "which is no name"),
    "long name": ([member("a" * 300, b"x")], "File name too long"),
    "bomb": ([member("a", bytes(3 * 10**6))], "comes to more than 1,000,000 bytes"),
    "many": ([member(f"{number}/", kind=tarfile.DIRTYPE) for number in range(2000)], "more than 1,000,000 bytes"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_tar_is_refused(tmp_path: Path, what: str) -> None:
    members, sentence = HOSTILE[what]
    archive = tar(tmp_path / "archive", *members)
    with pytest.raises(BadArchive, match=sentence):
        unpacked(archive, "tar.gz")
    nothing_outside(archive)


@pytest.mark.parametrize(
    ("name", "content", "kind", "sentence"),
    [
        ("/tmp/fedhpc-evil", b"x", 0, "leads out of its folder"),
        ("a/../../evil", b"x", 0, "leads out of its folder"),
        ("a", b"../../evil", LINK, "leads out of its folder"),
        ("a", b"/etc/passwd", LINK, "leads out of its folder"),
        ("a", b"", DEVICE, "holds a device"),
        ("a", bytes(3 * 10**6), 0, "comes to more than 1,000,000 bytes"),
    ],
)
def test_a_hostile_zip_is_refused(tmp_path: Path, name: str, content: bytes, kind: int, sentence: str) -> None:
    archive = zipped(tmp_path / "archive", (name, content, kind))
    with pytest.raises(BadArchive, match=sentence):
        unpacked(archive, "zip")
    nothing_outside(archive)


def test_a_zip_with_an_entry_without_a_name_is_damaged(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x", b"1")
    # zipfile ends a name at its first zero.
    (tmp_path / "a.zip").write_bytes((tmp_path / "a.zip").read_bytes().replace(b"x", b"\0"))
    with pytest.raises(BadArchive, match="the archive is damaged"):
        unpacked(tmp_path / "a.zip", "zip")


def test_a_compressed_bomb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(gzip.compress(bytes(3 * 10**6)))
    with pytest.raises(BadArchive, match="comes to more than 1,000,000 bytes"):
        unpacked(tmp_path / "archive", "gz")


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "zip", "gz", "lzma"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "something else", "empty"])
def test_a_damaged_archive_is_told(tmp_path: Path, kind: str, damage: str) -> None:
    archive = tmp_path / "archive"
    if kind.startswith("tar"):
        tar(archive, member("a", RANDOM), mode=f"w:{kind[4:]}")
    elif kind == "zip":
        zipped(archive, ("a", RANDOM, 0))
    else:
        archive.write_bytes((gzip if kind == "gz" else lzma).compress(RANDOM))
    content = bytearray(archive.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    wrong = {"truncated": content[:-2000], "flipped": content, "something else": b"<html>404</html>", "empty": b""}
    archive.write_bytes(wrong[damage])
    if damage == "empty" and kind == "gz":
        assert unpacked(archive, kind) == {"single": b""}  # so gzip has it; checksums tell
        return
    with pytest.raises(BadArchive, match=r"is damaged|cannot be unpacked"):
        unpacked(archive, kind)


def test_a_tar_with_something_after_its_end_is_damaged(tmp_path: Path) -> None:
    plain = tar(tmp_path / "plain", member("a", b"text"), mode="w").read_bytes()
    plain_tar = bytearray(plain)
    plain_tar[5000:5003] = b"abc"
    (tmp_path / "archive").write_bytes(bz2.compress(bytes(plain_tar)))
    with pytest.raises(BadArchive, match="something follows its end"):
        unpacked(tmp_path / "archive", "tar.bz2")


def test_names_are_found_side_by_side_wherever_they_lie(tmp_path: Path) -> None:
    for name in ("top/train", "top/data/train", "top/data/test"):
        (tmp_path / name).mkdir(parents=True)
    assert found_in(tmp_path, ["train"]) == tmp_path / "top"
    assert found_in(tmp_path, ["train", "test"]) == tmp_path / "top/data"
    assert found_in(tmp_path, ["train", "valid"]) is None
    assert content_folder(tmp_path) == tmp_path / "top"
