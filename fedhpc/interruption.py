"""A run that is asked to stop, by SIGTERM or Ctrl-C, writes what it needs to go on and ends.

The signal comes to every process of a job. Rank 0 answers it: while it starts and has nothing to keep, at once, and
later where it next looks, between two steps. The other ranks ignore it, and end with rank 0.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

INTERRUPTED = 128 + int(signal.SIGTERM)
"""The exit status of a run that was asked to stop by its sweep, or by SIGTERM."""

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(Exception):
    """The run was asked to stop, and the same command goes on with it. ``status``: the process's exit status."""

    def __init__(self, sentence: str, status: int = INTERRUPTED) -> None:
        # The arguments are those of the constructor, so that the exception survives pickling.
        super().__init__(sentence, status)
        self.sentence, self.status = sentence, status

    def __str__(self) -> str:
        return self.sentence


class Stop:
    """Whether this process was asked to stop, and by which signal: ``number``, or None."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._at_once = False

    @property
    def status(self) -> int:
        """The exit status that says so."""
        return INTERRUPTED if self.number is None else 128 + self.number

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """The signal's handler; asking again changes nothing."""
        if self.number is None:
            self.number = number
        if self._at_once:
            self._nothing_kept()

    def at_once(self, begin: Callable[[], T]) -> Callable[[], T]:
        """The same function, in which being asked raises Interrupted where it stands: there is nothing to keep yet."""

        def beginning() -> T:
            self._at_once = True
            try:
                if self.number is not None:
                    self._nothing_kept()
                return begin()
            finally:
                self._at_once = False

        return beginning

    def _nothing_kept(self) -> None:
        raise Interrupted("interrupted before the federation began", self.status)


@contextmanager
def stoppable(*, answers: bool) -> Iterator[Stop]:
    """Within, SIGTERM and SIGINT ask the yielded Stop where this rank ``answers``, and are ignored where not. Whoever
    started a launcher may have blocked SIGTERM for all that comes of it; here that ends. Signals are the main thread's
    affair: elsewhere nothing changes."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.ask if answers else signal.SIG_IGN) for number in _NUMBERS}
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, _NUMBERS)
    try:
        yield stop
    finally:
        # In this order, so that what is blocked again never meets the handlers from before.
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
