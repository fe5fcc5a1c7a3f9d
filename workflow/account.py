"""What of a results folder is there and what is missing, and why, for the report: from its files alone."""

import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedhpc.analysis.account import Account, Missing
from fedhpc.experiment import Experiment, Run
from fedhpc.mistakes import ExperimentError
from fedhpc.store.run_file import finished_digest, texts
from workflow.attempts import attempts_file, read_attempts
from workflow.results_folder import EXPERIMENT, loss_lines, read_experiment, tuning_runs
from workflow.status import RunState, run_state, run_states

_TAIL = 8
_TOLD = {
    "fedhpc_version": "fedhpc",
    "python_version": "Python",
    "library_versions": "libraries",
    "host": "hosts",
    "machine": "machine",
    "processor": "computed by",
    "ranks": "ranks a run",
}
"""Attributes of results -> what they are called in the report."""


def account_of(folder: Path) -> Account:
    """Of a sweep's folder. Raises ExperimentError where it is none."""
    experiment = read_experiment(folder)
    unread = ""
    try:
        states = run_states(folder)
    except ExperimentError as error:
        # A folder that was copied without its data holds all its results nevertheless.
        unread = f"Whether the results are the experiment's own could not be checked: {'; '.join(error.mistakes)}"
        states = list(_by_name(folder, experiment))
    runs = [state.run for state in states]
    attempts = Counter[str](each.outcome for run in runs for each in read_attempts(attempts_file(folder, run)))
    return Account(
        experiment.name,
        experiment.title,
        len(states),
        sum(state.state == "finished" for state in states),
        [_missing(folder, state) for state in states if state.state != "finished"],
        f"fedhpc sweep {_quoted(folder / EXPERIMENT)} --output {_quoted(folder)}",
        (folder / EXPERIMENT).read_text(encoding="utf-8"),
        unread,
        dict(attempts),
        list(_facts(folder, [state.run for state in states if state.state == "finished"])),
        [f"Silos lost: {line}" for line in loss_lines(folder, experiment)],
    )


def _by_name(folder: Path, experiment: Experiment) -> Iterator[RunState]:
    now = time.time()
    for run in [*tuning_runs(experiment), *experiment.runs()]:
        there = finished_digest(run.file(folder, ".h5")) is not None
        yield RunState(run, "finished") if there else run_state(folder, run, now)


def _missing(folder: Path, state: RunState) -> Missing:
    alone = ["fedhpc", "run", str(folder / EXPERIMENT), *state.run.options(), "--output", str(folder)]
    command = shlex.join(alone)
    if state.state == "failed" and state.progress is not None:
        reason = "\n".join(state.progress.message.splitlines()[-_TAIL:]) or "It said nothing."
        return Missing(str(state.run), "failed", reason, state.progress.log or "", command)
    words = "has not begun"
    if state.run.file(folder, ".h5").exists():
        words = "has a damaged result, which the sweep replaces"
    elif state.state == "running":
        words = f"is running, at {state.percent} %"
    elif state.percent:
        words = f"was interrupted at {state.percent} %"
    return Missing(str(state.run), words, "", "", command)


def _facts(folder: Path, finished: Iterable[Run]) -> Iterator[tuple[str, str]]:
    """What the results say of how they were made, each value once."""
    results = [texts(run.file(folder, ".h5"), [*_TOLD, "started_wall", "wall_seconds"]) for run in finished]
    if starts := sorted(one["started_wall"] for one in results if "started_wall" in one):
        yield "first and last start (UTC)", starts[0] if starts[0] == starts[-1] else f"{starts[0]} and {starts[-1]}"
    if walls := [float(one["wall_seconds"]) for one in results if "wall_seconds" in one]:
        yield "computing time of all runs", f"{sum(walls):,.0f} s; {sum(walls) / len(walls):,.1f} s a run"
    for name, told in _TOLD.items():
        if values := list(dict.fromkeys(one[name] for one in results if name in one)):
            yield told, "; ".join(values)
    yield "results", str(folder)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
