"""What of a sweep is there and what is not: the report's answer to who asks why a line is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Missing:
    """A run without a result. ``state`` is its state in words ("failed", "interrupted at 40 %"), ``reason`` the last
    lines of what it said, and ``log`` where the rest stands; both may be empty. ``command`` runs it alone."""

    run: str
    state: str
    reason: str
    log: str
    command: str


@dataclass(frozen=True)
class Account:
    """A sweep's runs, those that tune among them. ``unread`` says why results could not be held against the experiment
    (its data are gone, say), empty where they were. ``attempts`` are counted by how they ended; ``command`` goes on
    with what is missing. ``facts`` are names and values that tell when, where and with what it ran."""

    name: str
    title: str
    planned: int
    finished: int
    missing: Sequence[Missing]
    command: str
    settings: str
    unread: str = ""
    attempts: dict[str, int] = field(default_factory=dict)
    facts: Sequence[tuple[str, str]] = ()
    remarks: Sequence[str] = ()
