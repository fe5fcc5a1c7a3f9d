"""``fedhpc data fetch``: a data set brought here, with its progress, or what a person must do."""

import time
from pathlib import Path
from typing import TextIO

import yaml
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from fedhpc.data.catalogue import DataSet, data_set
from fedhpc.data.fetching.failures import FetchFailed
from fedhpc.data.fetching.fetch import fetch
from fedhpc.data.paths import VARIABLE, data_folder
from fedhpc.mistakes import ExperimentError
from workflow.byte_words import in_bytes

_SECONDS_BETWEEN_LINES = 30.0


def print_fetch(name: str, folder: Path | None, console: Console, errors: TextIO) -> int:
    """Fetches the data set below ``folder`` and prints how it goes, and in the end how to use it; on ``errors`` what
    could not be fetched. Returns the exit status. Raises ExperimentError where there is no such data set or no folder.
    """
    known = data_set(name)
    if folder is None:
        mend = "set it to the folder of data sets, which may be new, or give --to FOLDER"
        raise ExperimentError(Path(VARIABLE), [f"it is not set; {mend}"])
    folder = folder.absolute()
    _print(console, f"{known.title}\nlicence: {known.licence}")
    with _Display(console) as display:
        try:
            fetch(name, known, folder, display)
        except FetchFailed as failed:
            display.end()
            print(failed, file=errors)
            _print(console, _once_there(known))
            return 1
    _print(console, f"{name} is in {folder}{_mend(folder)}. To use it:\n{_paste(known)}")
    return 0


def _mend(folder: Path) -> str:
    found = data_folder()
    return "" if found is not None and found.absolute() == folder else f" (set {VARIABLE}={folder} to have it found)"


def _once_there(known: DataSet) -> str:
    """How to use what could not be fetched, or what may stand in its place."""
    told = [f"Once it is there, to use it:\n{_paste(known)}"]
    for name, when in known.instead.items():
        told.append(
            f"In its place, {when}: `fedhpc data fetch {name}`, and in the experiment's task:\n{_paste(data_set(name))}"
        )
    return "\n".join(told)


def _paste(known: DataSet) -> str:
    return yaml.safe_dump(known.paste, sort_keys=False, default_flow_style=None, width=110).strip()


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


class _Display:
    """A bar on a terminal; elsewhere a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("  "),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, visible=False)
        self._told = time.monotonic()

    def __enter__(self) -> "_Display":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._bar.stop()

    def says(self, sentence: str) -> None:
        _print(self._console, sentence)
        self._bar.reset(self._task, total=None, visible=False)

    def moved(self, done: int, total: int | None) -> None:
        self._bar.update(self._task, completed=done, total=total, visible=True)
        if not self._console.is_terminal and time.monotonic() - self._told > _SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            _print(self._console, in_bytes(done) + ("" if total is None else f" of {in_bytes(total)}"))
