"""Contents of large files and folders, remembered from one process to the next: hashing 24 GB takes most of a minute.

A content is remembered with the stamp that the files had: names, sizes, and the times of their last change. It counts
only while the stamp is the same. Each file or folder has a small file of its own in the user's cache folder, renamed
into place; deleting them costs no more than hashing anew.
"""

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path

from fedhpc.store.replacing import replacing

_CONTENT = re.compile("sha256:[0-9a-f]{64}")


def remembered(path: Path, stamp: str) -> str | None:
    """The content that ``path`` had when it had this stamp, or None where that is not known."""
    try:
        found = json.loads(_place_of(path).read_text("utf-8"))
    except (OSError, ValueError, RuntimeError):
        return None
    if not isinstance(found, dict) or (found.get("path"), found.get("stamp")) != (str(path.absolute()), stamp):
        return None
    content = found.get("content")
    return content if isinstance(content, str) and _CONTENT.fullmatch(content) else None


def remember(path: Path, stamp: str, content: str) -> None:
    """Keeps the content for later processes; where the cache folder cannot be written, they hash again."""
    # A home folder may be missing (RuntimeError), full or read-only.
    with suppress(OSError, RuntimeError), replacing(_place_of(path), durable=False) as temporary:
        found = {"path": str(path.absolute()), "stamp": stamp, "content": content}
        temporary.write_text(json.dumps(found), "utf-8")


def _place_of(path: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # A relative folder is to be ignored, by the specification of that variable.
    folder = cache if cache.is_absolute() else Path.home() / ".cache"
    return folder / "fedhpc" / "contents" / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]}.json"
