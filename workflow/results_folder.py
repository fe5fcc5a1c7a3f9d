"""A sweep's results folder: where its parts lie, what it holds already, and whether a sweep may use it."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedhpc.data.preparation import fingerprint_of, located
from fedhpc.experiment import Experiment, Pair, Run, dump_experiment, load_experiment
from fedhpc.mistakes import ExperimentError, nearest
from fedhpc.store.choice import Choice, choice_of, read_choice
from fedhpc.store.progress import read_progress
from fedhpc.store.replacing import replacing
from fedhpc.store.run_file import finished_digest, silos_lost, variables_of
from fedhpc.task import Learning, NullTask

EXPERIMENT = "experiment.yaml"

_SHARED = ("seed", "task", "budget", "evaluation")


def default_folder(experiment: Experiment) -> Path:
    """``results/<experiment>`` in the current folder."""
    return Path("results") / experiment.name


def log_file(folder: Path, run: Run) -> Path:
    """What a run's ranks print in its latest attempt; the one before ends in ``.log.1``."""
    return run.file(folder / "logs", ".log")


def parsl_folder(folder: Path) -> Path:
    """Parsl's own logs."""
    return folder / "logs" / "parsl"


def slurm_folder(folder: Path) -> Path:
    """What the jobs of a sweep print, by their numbers."""
    return folder / "logs" / "slurm"


def write_experiment(experiment: Experiment, folder: Path) -> None:
    """Writes the resolved experiment as ``FOLDER/experiment.yaml``, whole or not at all. Data files are named by
    absolute paths, since from here on paths resolve against this folder."""
    task: Learning | NullTask = experiment.task
    if isinstance(task, Learning):
        found = located(task, experiment.file.parent)
        task = found.with_files({key: path.resolve() for key, path in found.files.items()})
    scenarios = {name: experiment.located(name) for name in experiment.scenarios}
    text = dump_experiment(experiment.model_copy(update={"task": task, "scenarios": scenarios}))
    with replacing(folder / EXPERIMENT) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_experiment(folder: Path) -> Experiment:
    """The experiment whose results the folder holds. Raises ExperimentError where it is no results folder."""
    if not (folder / EXPERIMENT).exists():
        raise ExperimentError(folder, [_no_sweeps(folder)])
    return load_experiment(folder / EXPERIMENT)


def _no_sweeps(folder: Path) -> str:
    """Why this is no sweep's folder, and what a person may have meant."""
    if folder.is_file():
        if folder.suffix not in (".yaml", ".yml"):
            return "this is a file; give the results folder of a sweep"
        if folder.name == EXPERIMENT and any(folder.parent.glob("*/*/trial-*.h5")):
            return f"this is the experiment's file within its results; give the folder: {folder.parent}"
        results = Path("results") / folder.stem
        if (results / EXPERIMENT).exists():
            return f"this is an experiment's file; its results are in {results}"
        return f"this is an experiment's file; give its results folder, which `fedhpc sweep` makes: {results}, say"
    if not folder.exists():
        return "there is no such folder; `fedhpc sweep EXPERIMENT` makes results/EXPERIMENT, or the one of its --output"
    within = sorted(file.parent.name for file in folder.glob(f"*/{EXPERIMENT}"))
    if within:
        return f"this is no sweep's folder, but holds some; give one of them: {', '.join(within)}"
    if any(folder.glob("*/*/trial-*.h5")):
        return (
            f"this is no sweep's folder: it has no {EXPERIMENT}; read its single runs with fedhpc.store.open_run or "
            "open_experiment"
        )
    return f"this is no sweep's folder: it has no {EXPERIMENT}, which `fedhpc sweep EXPERIMENT --output FOLDER` writes"


def measured_in(folder: Path, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that the folder's results have as variables; all of them where there is no result yet."""
    for path in sorted(folder.glob("*/*/trial-*.h5")):
        if finished_digest(path) is not None:
            return variables_of(path, names)
    return list(names)


def digests(experiment: Experiment, chosen: Mapping[Pair, Choice] | None = None) -> dict[Run, str]:
    """Run -> the digest of its result: of all tuning runs, then of the trials. Those of a tuned algorithm are left out
    where nothing is ``chosen``. Raises ExperimentError where the data are missing."""
    data, chosen = fingerprint_of(experiment), chosen or {}
    found = {run: experiment.settings_of(run).digest(data) for run in tuning_runs(experiment)}
    tuned = set(experiment.pairs())
    for run in experiment.runs():
        if run.pair in chosen:
            found[run] = experiment.settings_of(run, chosen[run.pair].values).digest(data)
        elif run.pair not in tuned:
            found[run] = experiment.settings_of(run).digest(data)
    return found


def tuning_runs(experiment: Experiment) -> Iterator[Run]:
    """Every tuning run, pair by pair: the first pair's trials can begin the soonest."""
    for pair in experiment.pairs():
        yield from experiment.tuning_runs(pair)


def recorded_choices(folder: Path, experiment: Experiment) -> dict[Pair, Choice]:
    """What the folder's trials were run with, be it from another grid than now."""
    found = {pair: read_choice(folder, pair) for pair in experiment.pairs()}
    return {pair: choice for pair, choice in found.items() if choice and _fits(experiment, pair, choice)}


def current_choices(folder: Path, experiment: Experiment) -> dict[Pair, Choice]:
    """What is chosen from the experiment's own grid."""
    found = {pair: choice_of(folder, experiment, pair) for pair in experiment.pairs()}
    return {pair: choice for pair, choice in found.items() if choice and _fits(experiment, pair, choice)}


def _fits(experiment: Experiment, pair: Pair, choice: Choice) -> bool:
    try:
        experiment.settings_of(Run(*pair, 0), choice.values)
    except ValidationError:
        return False
    return True


def finished(folder: Path, expected: Mapping[Run, str]) -> list[Run]:
    """The runs whose results are there."""
    return [run for run, digest in expected.items() if finished_digest(run.file(folder, ".h5")) == digest]


def forget_failures(folder: Path, runs: Iterable[Run]) -> None:
    """These runs are about to be tried again: that they failed before is no longer their state."""
    for run in runs:
        path = run.file(folder, ".progress.json")
        last = read_progress(path)
        if last is not None and last.state == "failed":
            path.unlink(missing_ok=True)


def make_writable(folder: Path) -> None:
    """Makes the folder. Raises ExperimentError where it cannot be made or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable.{os.getpid()}"
        try:
            probe.write_bytes(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise ExperimentError(folder, [f"cannot be written to: {error.strerror}; give another --output"]) from None


def refuse_odd_name(folder: Path) -> None:
    """Raises ExperimentError where other nodes could not be told the folder's name: another is no use there."""
    if shlex.quote(str(folder)) != str(folder):
        raise ExperimentError(
            folder,
            [
                "Parsl hands this folder's name to shells on other nodes, which would take it apart; choose an "
                "--output of letters, digits and . _ / - only"
            ],
        )


def refuse_foreign(folder: Path, experiment: Experiment, expected: Mapping[Run, str]) -> None:
    """Raises ExperimentError where the folder holds results that the experiment would not give: those of another
    task, seed, budget or evaluation, or of a run of this name with other settings or data. Results of algorithms,
    scenarios and trials that the experiment lacks may stay. ``expected`` are the digests of the tuning runs and of the
    trials as the folder's recorded choices have them."""
    before = read_experiment(folder) if (folder / EXPERIMENT).exists() else None
    mistakes = list(_differences(before, experiment)) if before and any(folder.glob("*/*/trial-*.h5")) else []
    for run, digest in expected.items():
        found = finished_digest(run.file(folder, ".h5"))
        if not mistakes and found is not None and found != digest:
            mistakes += _changes(before, experiment, run)
    if not mistakes:
        mistakes += _untuned(folder, experiment, expected)
    if mistakes:
        mend = "give another --output, another name to what changed, or remove the results that are there"
        raise ExperimentError(folder, [*mistakes, f"these results are another experiment's: {mend}"])


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence that tells of a name that is not there, and of the nearest that is."""
    names = list(known)
    return f"{kind}: '{name}' is unknown{nearest(name, names)}; known: {', '.join(names)}"


def _differences(before: Experiment, now: Experiment) -> Iterator[str]:
    for key in _SHARED:
        old, new = (_comparable(experiment)[key] for experiment in (before, now))
        yield from _compared(key, old, new)


def _untuned(folder: Path, experiment: Experiment, expected: Mapping[Run, str]) -> Iterator[str]:
    for run in experiment.runs():
        if run not in expected and finished_digest(run.file(folder, ".h5")) is not None:
            yield f"tuning.grid.{run.algorithm}: {run} is there already, and was not tuned in this folder"


def _changes(before: Experiment | None, now: Experiment, run: Run) -> list[str]:
    """Why a result of this run is not the one that the experiment would give."""
    told: list[str] = []
    if before is not None:
        old, new = _comparable(before), _comparable(now)
        for block, name in (("algorithms", run.algorithm), ("scenarios", run.scenario)):
            told += _compared(f"{block}.{name}", old[block].get(name), new[block][name])
        old_grid, new_grid = ((each["tuning"] or {"grid": {}})["grid"].get(run.algorithm) for each in (old, new))
        told += _compared(f"tuning.grid.{run.algorithm}", old_grid, new_grid)
    return told or [
        f"{run}: its result comes from other data, another module or file of the model, or another version of fedhpc"
    ]


def _comparable(experiment: Experiment) -> dict[str, Any]:
    of_scenarios = {"__all__": {"devices": {"path"}, "availability": {"path"}}}
    task: Any = experiment.task
    of_task = task.places_of_files if isinstance(task, Learning) else {}
    return experiment.model_dump(mode="json", exclude={"task": of_task, "scenarios": of_scenarios})


def _compared(key: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            yield from _compared(f"{key}.{name}", old.get(name), new.get(name))
    elif old != new:
        yield f"{key}: was {old} and is now {new}"


def loss_lines(folder: Path, experiment: Experiment) -> list[str]:
    """A line for each finished run of a clock's federation that lost silos on its way."""
    lines = []
    for run in experiment.runs() if experiment.clock == "wall" else ():
        result = run.file(folder, ".h5")
        if finished_digest(result) is not None and (lost := silos_lost(result)):
            lines.append(f"{run}  {', '.join(f'{name} at second {second:.1f}' for name, second in lost)}")
    return lines
