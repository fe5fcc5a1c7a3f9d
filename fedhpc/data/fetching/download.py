"""A download that survives: cut connections, a killed process, a file that changes meanwhile.

1. A part of the file that is there already is gone on from (RFC 9110, Range), if the server says that the file is still
   the one it was (If-Range with its ETag or date), or a published checksum will tell.
2. Otherwise, and where the server knows no ranges, it begins again.
3. A transfer that breaks off is tried again after a pause, for as long as each try reaches farther.
"""

import http.client
import json
import os
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from fedhpc.data.fetching.failures import Broken, Refused
from fedhpc.store.replacing import replacing, told

PAUSES = (1.0, 3.0, 9.0, 27.0)
"""Seconds between tries of which none reaches farther than those before."""

_SILENCE_SECONDS = 60.0
_BLOCK = 2**18
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_NO_SUCH_RANGE = 416

Moved = Callable[[int, int | None], None]
"""Is told the bytes that are there and those that there will be, where that is known."""


class _Unanswered(Broken):
    """No server was reached."""


@dataclass(frozen=True)
class _Known:
    """What is known of a part: whose it is, how long the whole will be, and by what the server knows its version."""

    address: str
    total: int | None = None
    version: str | None = None


def download(
    address: str, part: Path, most: int | None, checked: bool, moved: Moved, pauses: Sequence[float] = PAUSES
) -> bool:
    """Downloads ``address`` (http, https or file) into ``part``, going on from what is there of it. A JSON file beside
    it remembers whose part it is. At most ``most`` bytes are taken. ``checked``: whether a checksum will tell a part of
    another version.

    Returns whether what an earlier call left there is in it. Raises Refused where the address does not give the file,
    Broken where it still breaks off after all pauses, and NotWritable where the disk is full; the part stays.
    """
    farthest = _kept(address, part, checked)
    kept, answered, left = farthest > 0, False, list(pauses)
    while True:
        try:
            for begins in _transfer(address, part, most, checked, moved):
                answered = True
                kept = kept and begins > 0
            return kept
        except Broken as broken:
            reached = part.stat().st_size if part.exists() else 0
            if reached > farthest:
                farthest, left = reached, list(pauses)
            # Where nobody answers at all, that is not long hoped for.
            if not left or (isinstance(broken, _Unanswered) and not answered and len(left) < len(pauses)):
                raise
            time.sleep(left.pop(0))


def _transfer(address: str, part: Path, most: int | None, checked: bool, moved: Moved) -> Iterator[int]:
    """One try. Yields the size from which it goes on, once the server has answered."""
    have, known = _kept(address, part, checked), _known(part)
    if known is not None and have == known.total:
        yield have
        return
    headers = {"User-Agent": "fedhpc", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if known is not None and known.version is not None:
            headers["If-Range"] = known.version
    with closing(_opened(address, headers, part)) as response:
        begins, total = _extent(response, have, part)
        yield begins
        if most is not None and (total or 0) > most:
            raise Refused(f"the file has {total:,} bytes, and {most:,} are the most that it should have")
        _remember(part, _Known(address, total, _version(response)))
        with told(part), part.open("r+b" if begins else "wb", buffering=0) as file:
            file.seek(begins)
            size = begins
            for block in _blocks(response):
                size += _written(file, block)
                moved(size, total)
                if most is not None and size > most:
                    raise Refused(f"the file goes on beyond {most:,} bytes, the most that it should have")
            os.fsync(file.fileno())
    if total is not None and size != total:
        raise Broken(f"the connection was closed after {size:,} of {total:,} bytes")
    _remember(part, _Known(address, size, _version(response)))


def _opened(address: str, headers: dict[str, str], part: Path) -> Any:
    try:
        return urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=_SILENCE_SECONDS)
    except urllib.error.HTTPError as error:
        with closing(error):
            if error.code == _NO_SUCH_RANGE:
                forget(part)
                raise Broken("the server has fewer bytes than are here already") from None
            if error.code in _PASSING:
                raise Broken(f"the server answers {error.code} {error.reason}") from None
            raise Refused(f"the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        reason = error.reason
        if isinstance(reason, socket.gaierror):
            raise Refused(f"the host is not found ({reason.strerror}): is there a network here?") from None
        if address.startswith("file:"):
            raise Refused(f"there is no such file ({_reason(reason)})") from None
        raise _Unanswered(_reason(reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Unanswered(_reason(error)) from None
    except ValueError as error:
        raise Refused(f"it is no address ({error})") from None


def _extent(response: Any, have: int, part: Path) -> tuple[int, int | None]:
    """Where the answer begins in the file, and how long the whole file is, where that is told."""
    if getattr(response, "status", None) == http.client.PARTIAL_CONTENT:
        extent = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if extent is None or int(extent[1]) != have:
            forget(part)
            raise Broken("the server sends another part than it was asked for")
        return have, None if extent[2] == "*" else int(extent[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _blocks(response: Any) -> Iterator[bytes]:
    while True:
        try:
            block = response.read1(_BLOCK)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Broken(_reason(error)) from None
        if not block:
            return
        yield block


def _written(file: IO[bytes], block: bytes) -> int:
    left = memoryview(block)
    while left:
        left = left[file.write(left) :]
    return len(block)


def _version(response: Any) -> str | None:
    """By what the server will know this version again: a strong ETag, or the date of its last change."""
    tag = response.headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        return str(tag)
    date = response.headers.get("Last-Modified")
    return None if date is None else str(date)


def _kept(address: str, part: Path, checked: bool) -> int:
    """So many bytes of a part can be gone on from."""
    known = _known(part)
    if known is None or known.address != address or not part.exists():
        return 0
    size = part.stat().st_size
    return size if checked or known.version is not None or size == known.total else 0


def _notes(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _known(part: Path) -> _Known | None:
    try:
        return _Known(**json.loads(_notes(part).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _remember(part: Path, known: _Known) -> None:
    with replacing(_notes(part), durable=False) as temporary:
        temporary.write_text(json.dumps(asdict(known)), encoding="utf-8")


def forget(part: Path) -> None:
    """Throws a part away, and what was known of it."""
    part.unlink(missing_ok=True)
    _notes(part).unlink(missing_ok=True)


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came for {_SILENCE_SECONDS:.0f} s"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was closed before the file's end"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
