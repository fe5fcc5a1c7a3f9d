"""``fedhpc data prepare``: what a sweep would prepare, ahead of it, and whether it still is what was prepared."""

import time
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from fedhpc.data.preparation import damage_of, prepared_data, prepared_file
from fedhpc.experiment import Experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.task import Learning
from workflow.byte_words import in_bytes
from workflow.results_folder import make_writable, tuning_runs


def print_prepare(experiment: Experiment, folder: Path, console: Console) -> int:
    """Prepares the data of all runs in ``folder``, where the sweep finds them, and prints where, how big and how long.
    Returns the exit status. Raises ExperimentError where the data are missing or not as the task says."""
    trials, there_before = _trials(experiment), folder.exists()
    make_writable(folder.resolve())
    try:
        _prepare(experiment, folder, trials, console)
    except ExperimentError:
        if not there_before:
            with suppress(OSError):  # not where a trial's data are in it
                folder.rmdir()
        raise
    return 0


def _prepare(experiment: Experiment, folder: Path, trials: list[int], console: Console) -> None:
    for trial in trials:
        began, known = time.perf_counter(), prepared_file(experiment, folder, trial)
        there = known is not None and known.exists()
        path = prepared_data(experiment, folder, trial)
        assert path is not None  # a null task was refused
        told = "was there" if there else f"prepared in {time.perf_counter() - began:.1f} s"
        _print(console, f"{_whose(trial, trials)}: {path}, {in_bytes(path.stat().st_size)}, {told}")


def print_check(experiment: Experiment, folder: Path, console: Console) -> int:
    """Reads what was prepared in ``folder`` and prints whether it is whole. Returns the exit status: 1 where something
    is missing or damaged."""
    trials, status = _trials(experiment), 0
    for trial in trials:
        path = prepared_file(experiment, folder, trial)
        assert path is not None
        damage = damage_of(path) if path.exists() else "is not there; `fedhpc data prepare` makes it"
        status |= damage is not None
        _print(console, f"{_whose(trial, trials)}: {path} {damage or 'is whole'}")
    return int(status)


def _trials(experiment: Experiment) -> list[int]:
    """The trials by which the runs' data are drawn: one, or each where each has a partition of its own."""
    if not isinstance(experiment.task, Learning):
        raise ExperimentError(experiment.file, ["task.kind: the null task has no data; there is nothing to prepare"])
    runs = [*tuning_runs(experiment), *experiment.runs()]
    return sorted({experiment.task.data_trial(run.trial) for run in runs})


def _whose(trial: int, trials: list[int]) -> str:
    return "all runs" if len(trials) == 1 else f"trial {trial}"


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
