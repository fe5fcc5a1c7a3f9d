"""Archives unpacked without trust: nothing outside the folder, no links or devices, no more bytes than declared.

A link within an archive becomes the file that it points to, once everything else is unpacked; so no name in the archive
is ever followed anywhere.
"""

import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, cast

from fedhpc.data.fetching.failures import BadArchive
from fedhpc.store.replacing import OF_THE_DISK

_BLOCK = 2**20
_LONGEST_TARGET = 4096
_ENTRY = 512
"""Bytes that an entry counts at least, so that a million empty ones are no trifle."""
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    ValueError,
    IndexError,  # zipfile's, of an entry without a name
)
_TAR_MODES = {"tar.bz2": "r:bz2", "tar.gz": "r:gz"}
_SINGLE: dict[str, Callable[[Path], IO[bytes]]] = {"gz": gzip.open, "lzma": lzma.open}  # type: ignore[dict-item]


def unpack(archive: Path, kind: str, folder: Path, most: int, single: str, moved: Callable[[int, None], None]) -> None:
    """Unpacks into the ``folder``, which is there and empty; a compressed file becomes the file ``single`` in it.
    ``most``: bytes. ``moved`` is told how many are there so far.

    Raises BadArchive where the archive is damaged or holds what it must not, and OSError where the disk is full.
    """
    into = _Folder(folder, most, moved)
    try:
        if kind in _SINGLE:
            with _SINGLE[kind](archive) as source:
                into.file(single, source)
        elif kind == "zip":
            _unpack_zip(archive, into)
        else:
            _unpack_tar(archive, _TAR_MODES[kind], into)
        into.settle_links()
    except _DAMAGE as error:
        raise BadArchive(f"the archive is damaged ({str(error) or 'it ends too soon'})") from None
    except RuntimeError as error:  # zipfile's, of a password
        raise BadArchive(f"the archive cannot be unpacked ({error})") from None
    except OSError as error:
        if error.errno in OF_THE_DISK:
            raise
        # Compressed streams tell of damage so too, without a number; and file systems of names that clash.
        raise BadArchive(f"the archive cannot be unpacked ({error.strerror or error})") from None


class _Folder:
    """Where an archive goes. Names are the archive's own."""

    def __init__(self, folder: Path, most: int, moved: Callable[[int, None], None]) -> None:
        self._folder, self._most, self._moved = folder, most, moved
        self._bytes = 0
        self._links: dict[Path, Path] = {}

    def folder(self, name: str) -> None:
        self._count(_ENTRY)
        self._place(name).mkdir(parents=True, exist_ok=True)

    def file(self, name: str, source: IO[bytes]) -> None:
        place = self._place(name)
        if place == self._folder:
            raise BadArchive(f"the archive holds a file named {name!r}, which is no name")
        self._count(_ENTRY)
        with self._new(place).open("xb") as file:
            while block := source.read(_BLOCK):
                self._count(len(block))
                file.write(block)

    def link(self, name: str, target: str) -> None:
        """``target`` is seen from the archive's root. The file of that name is there at the latest at the end."""
        self._count(_ENTRY)
        self._links[self._place(name)] = self._place(target)

    def pad(self, blocks: IO[bytes]) -> None:
        """What follows an archive's end: read, so that a stream's own checksum is checked, and nothing but zeros."""
        while block := blocks.read(_BLOCK):
            self._count(len(block))
            if block.strip(b"\0"):
                raise BadArchive("the archive is damaged (something follows its end)")

    def settle_links(self) -> None:
        left = self._links
        while left:
            ready = {place: target for place, target in left.items() if target.is_file()}
            if not ready:
                place, target = next(iter(left.items()))
                ends = f"{self._name(place)!r} to {self._name(target)!r}"
                raise BadArchive(f"the archive holds a link from {ends}, which is no file of it")
            for place, target in ready.items():
                self._count(target.stat().st_size)
                with target.open("rb") as source, self._new(place).open("xb") as file:
                    shutil.copyfileobj(source, file, _BLOCK)
            left = {place: target for place, target in left.items() if place not in ready}

    def _new(self, place: Path) -> Path:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            raise BadArchive(f"the archive holds {self._name(place)!r} twice")
        return place

    def _place(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts:
            raise BadArchive(f"the archive holds the path {name!r}, which leads out of its folder")
        return self._folder.joinpath(*parts)

    def _name(self, place: Path) -> str:
        return place.relative_to(self._folder).as_posix()

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._most:
            raise BadArchive(f"the archive comes to more than {self._most:,} bytes, the most that it should hold")
        self._moved(self._bytes, None)


def _unpack_tar(archive: Path, mode: str, into: _Folder) -> None:
    with tarfile.open(archive, mode) as tar:  # type: ignore[call-overload]
        while (member := tar.next()) is not None:
            tar.members = []  # of a million pictures, none is needed again
            if member.isdir():
                into.folder(member.name)
            elif member.isreg():
                content = tar.extractfile(member)
                assert content is not None  # a regular file has some
                into.file(member.name, content)
            elif member.islnk():
                into.link(member.name, member.linkname)
            elif member.issym():
                into.link(member.name, _seen_from_root(member.name, member.linkname))
            else:
                raise BadArchive(f"the archive holds a device, {member.name!r}")
        into.pad(cast(IO[bytes], tar.fileobj))


def _unpack_zip(archive: Path, into: _Folder) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir():
                into.folder(member.filename)
            elif kind == stat.S_IFLNK:
                target = opened.open(member).read(_LONGEST_TARGET).decode(errors="surrogateescape")
                into.link(member.filename, _seen_from_root(member.filename, target))
            elif kind in (0, stat.S_IFREG):
                with opened.open(member) as content:
                    into.file(member.filename, content)
            else:
                raise BadArchive(f"the archive holds a device, {member.filename!r}")


def _seen_from_root(name: str, target: str) -> str:
    """A symbolic link's target, which is seen from the link's own folder."""
    return target if target.startswith("/") else os.path.normpath(f"{PurePosixPath(name).parent}/{target}")


def found_in(folder: Path, names: list[str]) -> Path | None:
    """The folder within (or itself) that holds all of these names: the one nearest to the top; None where none does."""
    level = [folder]
    while level:
        for place in level:
            if all((place / name).exists() for name in names):
                return place
        level = [below for place in level for below in sorted(place.iterdir()) if below.is_dir()]
    return None


def content_folder(folder: Path) -> Path:
    """Where an archive's content begins: within folders that hold a folder and nothing else."""
    inside = list(folder.iterdir())
    return content_folder(inside[0]) if len(inside) == 1 and inside[0].is_dir() else folder
