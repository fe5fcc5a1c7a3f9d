"""The SHA-256 of what was fetched, remembered on first use: ``checksums/<data set>.json`` below FEDHPC_DATA.

That folder is apart from the data: a folder of data is known by all that lies in it.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fedhpc.data.fetching.failures import Changed
from fedhpc.data.paths import content_of
from fedhpc.store.replacing import replacing

BY_HAND = "by hand"


@dataclass(frozen=True)
class Record:
    """``sha256`` is a file's; of a folder, that of its files' names and contents (``content_of``). ``source``: the
    address that it came from, or that it was put there by hand. ``first_used``: the day."""

    sha256: str
    source: str
    first_used: str


def record_file(folder: Path, name: str) -> Path:
    """Where a data set's records are kept. ``folder``: that of data sets."""
    return folder / "checksums" / f"{name}.json"


def read_records(folder: Path, name: str) -> dict[str, Record]:
    """Path below the folder -> what is remembered of it; empty where nothing is yet. Raises Changed where the records
    are there and cannot be read: who lost them must not take what lies there now for what came first."""
    file = record_file(folder, name)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        records = {path: Record(**told) for path, told in content.items()}
        if all(isinstance(record.sha256, str) for record in records.values()):
            return records
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    raise Changed(
        f"{file} can no longer be read, which tells what {name} was on first use; bring it back, or remove it to have "
        "what is there now taken for it"
    )


def remember(folder: Path, name: str, added: dict[str, Record]) -> None:
    """Adds to what is remembered, whole or not at all. What is there already stays as it is."""
    records = added | read_records(folder, name)
    with replacing(record_file(folder, name)) as temporary:
        content = {path: asdict(record) for path, record in sorted(records.items())}
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    """A file's or folder's, in hexadecimal digits. Raises OSError where it cannot be read."""
    return content_of(path).removeprefix("sha256:")


def changes(folder: Path, name: str) -> list[str]:
    """A sentence for each file or folder that is there and no longer what it was on first use, or for records that
    cannot be read. Reads all of them."""
    try:
        records = read_records(folder, name)
    except Changed as lost:
        return [str(lost)]
    found = []
    for path, record in records.items():
        if (folder / path).exists() and (now := sha256_of(folder / path)) != record.sha256:
            found.append(
                f"{folder / path} has changed since {record.first_used} (SHA-256 {record.sha256[:12]}... then, "
                f"{now[:12]}... now); remove it and fetch it again, or, if the change is meant, remove "
                f"{record_file(folder, name)}"
            )
    return found
