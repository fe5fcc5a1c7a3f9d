"""What a person sees of a sweep, on a terminal and elsewhere."""

import io
import os
import re
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from rich.console import Console

from fedhpc.experiment import Run
from fedhpc.store.progress import Progress, write_progress
from tests.workflow.experiments import wait_until
from workflow import progress_display
from workflow.apps import RunFailed
from workflow.dag import Sweep

GOOD, BAD = Run("fedavg", "slow", 0), Run("fedbuff", "slow", 0)


def _shown(folder: Path, terminal: bool) -> str:
    """What is printed of a sweep of three runs: one was finished before, one finishes, one fails."""
    good: Future[Any] = Future()
    bad: Future[Any] = Future()
    report: Future[Any] = Future()
    sweep = Sweep(folder, [Run("fedprox", "slow", 0)], {GOOD: good, BAD: bad}, report)
    write_progress(
        GOOD.file(folder, ".progress.json"),
        Progress("running", 0.43, 1, 1.0, "", None, socket.gethostname(), os.getpid(), time.time()),
    )

    printed = io.StringIO()
    console = Console(file=printed, force_terminal=terminal, width=100)

    def live() -> None:
        with suppress(AssertionError):  # what is not there is missed in what was shown
            wait_until(lambda: "not known yet" in printed.getvalue(), 20)
        bad.set_exception(RunFailed(BAD, 1, Path("/logs/trial-0.log"), "ValueError: no"))
        with suppress(AssertionError):
            wait_until(lambda: "1 failed" in printed.getvalue(), 20)
        good.set_result(None)
        report.set_result("")

    thread = threading.Thread(target=live)
    thread.start()
    troubles = SimpleQueue[str]()
    troubles.put("fedavg/slow/trial-0: the workers on n3 were lost; it is tried again, from its last checkpoint")
    progress_display.watch(sweep, console, lambda: None, troubles, lambda: "1 job runs, 2 wait (Priority)")
    thread.join()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.getvalue())


def test_plain_lines_tell_every_end_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_display, "_SECONDS_BETWEEN_LINES", 0.2)
    lines = _shown(tmp_path, terminal=False).splitlines()
    ends = [line for line in lines if line.startswith("[")]
    assert ends == [
        "[1/3] fedbuff/slow/trial-0 FAILED: exit status 1; log: /logs/trial-0.log",
        "[2/3] fedavg/slow/trial-0 is finished",
    ]
    assert lines[0].startswith("fedavg/slow/trial-0: the workers on n3 were lost;")
    queue = "1 job runs, 2 wait (Priority)"
    assert f"1/3 done; running: fedavg/slow/trial-0 43 %; {queue}; time left: not known yet" in lines
    assert any(
        line.startswith(f"1/3 done; running: fedavg/slow/trial-0 43 %; 1 failed; {queue}; about") for line in lines
    )


def test_a_terminal_shows_the_runs_at_work(tmp_path: Path) -> None:
    shown = _shown(tmp_path, terminal=True)
    assert re.search(r"1/3 done +time left: not known yet", shown)
    assert re.search(r"1/3 done +1 failed +about \d:\d\d:\d\d left", shown)
    assert re.search(r"running +fedavg/slow/trial-0 +43 %", shown)
    assert re.search(r"queue +1 job runs, 2 wait \(Priority\)", shown)
    assert "[2/3] fedavg/slow/trial-0 is finished" in shown
