"""How far a run has come: a small JSON beside its result, for whoever looks."""

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from fedhpc.store.replacing import replacing


@dataclass(frozen=True)
class Progress:
    """``state``: what was asked to stop before its end is "interrupted". ``fraction`` is of the budget, from 0 to 1;
    ``message`` says why a run failed; ``log`` is its log's path; ``updated_wall`` is in Unix seconds."""

    state: Literal["running", "interrupted", "failed"]
    fraction: float
    client_updates: int
    virtual_seconds: float
    message: str
    log: str | None
    host: str
    pid: int
    updated_wall: float


def write_progress(path: Path, progress: Progress) -> None:
    """Puts the progress in place of the last. Raises OSError where the folder cannot be written."""
    with replacing(path, durable=False) as temporary:
        temporary.write_text(json.dumps(asdict(progress)) + "\n", encoding="utf-8")


def read_progress(path: Path) -> Progress | None:
    """The progress last written, or None where there is none that can be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = Progress(**{field.name: content[field.name] for field in fields(Progress)})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if _is_sound(found) else None


def _is_sound(progress: Progress) -> bool:
    """Whether every field is of its kind: the file may be anybody's."""
    numbers = (
        progress.fraction,
        progress.client_updates,
        progress.virtual_seconds,
        progress.pid,
        progress.updated_wall,
    )
    texts = (progress.message, progress.host, progress.log or "")
    return (
        progress.state in ("running", "interrupted", "failed")
        and all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        and all(isinstance(text, str) for text in texts)
    )
