"""What a person sees while a sweep runs: a live display on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from fedhpc.experiment import Run
from workflow.apps import RunFailed
from workflow.dag import Sweep, failure
from workflow.status import RunState, run_state

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_QUESTIONS = 20.0


def watch(
    sweep: Sweep,
    console: Console,
    check: Callable[[], None],
    troubles: "SimpleQueue[str]",
    queue: Callable[[], str] | None = None,
) -> None:
    """Shows a sweep until its report is there or has failed, or ``check``, called again and again, raises. Lines that
    appear in ``troubles`` are passed on. ``queue`` says how the jobs stand that give the sweep its nodes, where there
    are such."""
    view = _View(sweep, troubles, queue)
    if console.is_terminal:
        with Live(view.picture(), console=console, refresh_per_second=4, transient=True) as live:
            while not sweep.report.done():
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                check()
                for line in view.news():
                    live.console.print(line, markup=False, highlight=False)
                live.update(view.picture())
    else:
        next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
        while not sweep.report.done():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            check()
            for line in view.news():
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            if time.monotonic() >= next_line:
                next_line += _SECONDS_BETWEEN_LINES
                console.print(view.sentence(), markup=False, highlight=False, soft_wrap=True)
    for line in view.news():
        console.print(line, markup=False, highlight=False, soft_wrap=True)


class _View:
    def __init__(self, sweep: Sweep, troubles: "SimpleQueue[str]", queue: Callable[[], str] | None) -> None:
        self._sweep = sweep
        self._troubles = troubles
        self._queue = queue
        self._queue_said, self._next_question = "", 0.0
        self._started = time.monotonic()
        self._told: set[Run] = set()
        self._failed = 0
        self._first_fraction: dict[Run, float] = {}

    @property
    def _total(self) -> int:
        return len(self._sweep.finished) + len(self._sweep.runs)

    @property
    def _done(self) -> int:
        return len(self._sweep.finished) + len(self._told) - self._failed

    def news(self) -> Iterator[str]:
        """A line for every trouble and every run that has ended since the last call."""
        while not self._troubles.empty():
            yield self._troubles.get()
        for run, future in self._sweep.runs.items():
            if run in self._told or not future.done():
                continue
            self._told.add(run)
            error = failure(future)
            if error is None:
                yield f"[{self._done}/{self._total}] {run} is finished"
            else:
                self._failed += 1
                yield f"[{self._done}/{self._total}] {run} FAILED: {_reason(run, error)}"

    def sentence(self) -> str:
        running = self._running()
        parts = [f"{self._done}/{self._total} done"]
        if running:
            parts.append("running: " + ", ".join(f"{state.run} {state.percent} %" for state in running))
        if self._failed:
            parts.append(f"{self._failed} failed")
        if said := self._jobs():
            parts.append(said)
        return "; ".join([*parts, self._time_left(running)])

    def picture(self) -> Group:
        running = self._running()
        head = _row()
        bar = ProgressBar(total=self._total or 1, completed=self._done + sum(map(_fraction, running)), width=30)
        failed = Text(f"{self._failed} failed", style="red") if self._failed else Text("")
        head.add_row(bar, f"{self._done}/{self._total} done", failed, self._time_left(running))
        body = _row()
        if said := self._jobs():
            body.add_row("  queue", said, "", "")
        for state in running:
            body.add_row("  running", str(state.run), f"{state.percent} %", "")
        return Group(head, body)

    def _running(self) -> list[RunState]:
        now = time.time()
        folder: Path = self._sweep.folder
        states = [
            run_state(folder, run, now)
            for run, future in self._sweep.runs.items()
            if not future.done() and run.file(folder, ".progress.json").exists()
        ]
        return [state for state in states if state.state == "running"]

    def _jobs(self) -> str:
        """Asked for now and then: Slurm has others to answer too."""
        if self._queue is not None and time.monotonic() >= self._next_question:
            self._queue_said = self._queue()
            self._next_question = time.monotonic() + _SECONDS_BETWEEN_QUESTIONS
        return self._queue_said

    def _time_left(self, running: list[RunState]) -> str:
        """By the pace so far, counted in runs; work that an earlier sweep did is not this one's pace."""
        for state in running:
            self._first_fraction.setdefault(state.run, _fraction(state))
        before = sum(self._first_fraction.values())
        worked = len(self._told) + sum(map(_fraction, running)) - before
        left = len(self._sweep.runs) - len(self._told) - sum(map(_fraction, running))
        elapsed = time.monotonic() - self._started
        if worked <= 0.05:
            return "time left: not known yet"
        seconds = int(left * elapsed / worked)
        return f"about {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"


def _row() -> Table:
    """Cells side by side, cut rather than broken where the terminal is narrow."""
    return Table.grid(*(Column(no_wrap=True) for _ in range(4)), padding=(0, 2))


def _fraction(state: RunState) -> float:
    return state.progress.fraction if state.progress else 0.0


def _reason(run: Run, error: BaseException) -> str:
    if isinstance(error, RunFailed):
        return f"{error.reason}; log: {error.log}" if error.run == run else f"it waited in vain for {error.run}"
    return (str(error).splitlines() or [type(error).__name__])[0]
