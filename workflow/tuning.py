"""What a results folder's tuning runs come to: the choice for each pair of algorithm and scenario, and its report."""

import csv
import io
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedhpc.data.preparation import fingerprint_of
from fedhpc.experiment import Experiment, Pair, Run, TuningRun
from fedhpc.mistakes import ExperimentError
from fedhpc.store.choice import Choice, tuning_folder, write_choice
from fedhpc.store.replacing import replacing, sync
from fedhpc.store.run_file import finished_digest, last_values
from fedhpc.tuning import Outcome, best, in_words
from workflow.results_folder import current_choices, digests, finished, loss_lines, read_experiment

if TYPE_CHECKING:
    from fedhpc.analysis.target_table import Target


def settle(folder: Path, experiment: Experiment, pair: Pair) -> Choice:
    """Chooses the best of a pair's points, whose results must be there, and writes the choice. Trials of another
    choice are set aside beside the tuning runs, and come back should theirs win again.

    The trials that differ leave before the choice is written and those that fit come back after it, so that whatever
    is there when this is killed fits the choice that is there.
    """
    assert experiment.tuning is not None
    metric = experiment.tuning.metric
    runs = list(experiment.tuning_runs(pair))
    outcomes = [_outcome(folder, run, metric) for run in runs]
    number = best(outcomes, metric)
    choice = Choice(
        experiment.points(pair[0])[runs[number].point].values,
        metric,
        None if outcomes[number].diverged else outcomes[number].metric,
        len(runs),
        all(outcome.diverged for outcome in outcomes),
        experiment.grid_digest(pair),
    )
    data, own, aside = fingerprint_of(experiment), folder.joinpath(*pair), tuning_folder(folder, pair)

    def fits(trial: int, digest: str | None) -> bool:
        return experiment.settings_of(Run(*pair, trial), choice.values).digest(data) == digest

    for file, trial in _trial_files(own, r"trial-(\d+)\.h5"):
        digest = finished_digest(file)
        if digest is not None and not fits(trial, digest):
            _move(file, aside / f"trial-{trial}.{digest[:16]}.h5")
    write_choice(folder, pair, choice)
    for file, trial in _trial_files(aside, r"trial-(\d+)\.[0-9a-f]{16}\.h5"):
        if fits(trial, finished_digest(file)):
            _move(file, own / f"trial-{trial}.h5")
    return choice


def settled(folder: Path, experiment: Experiment, expected: Mapping[Run, str]) -> dict[Pair, Choice]:
    """Settles every pair whose points are all there. ``expected`` are the digests of the tuning runs, at least."""
    done = set(finished(folder, expected))
    return {
        pair: settle(folder, experiment, pair)
        for pair in experiment.pairs()
        if done.issuperset(experiment.tuning_runs(pair))
    }


def chosen_lines(folder: Path, experiment: Experiment) -> list[str]:
    """What is chosen so far, a line a pair."""
    return [
        f"{'/'.join(pair)}  {in_words(choice.values)}  {_reason(choice)}"
        for pair, choice in current_choices(folder, experiment).items()
    ]


def write_reports(folder: Path, target: "Target | None" = None) -> str:
    """Writes the closing report (see ``write_report``) and, where something is tuned, every point and its metric as
    ``FOLDER/report/tuning.csv`` and what is chosen as ``tuning.txt``. Returns the texts.

    Raises FileNotFoundError where the folder holds no result of a trial; what was tuned is written all the same.
    Raises NotMeasured where no run has the target's metric, and ExperimentError where a result is damaged or of another
    seed.
    """
    from fedhpc.analysis.report import write_report
    from fedhpc.store.reader import Unusable
    from workflow.account import account_of

    experiment = read_experiment(folder)
    tuned = _write_tuning(folder, experiment)
    account = account_of(folder)
    if tuned:
        account = replace(account, remarks=[*account.remarks, *tuned.splitlines()])
    try:
        text = write_report(folder, experiment.published, target, experiment=experiment, account=account)
    except Unusable as unfit:
        raise ExperimentError(folder, [str(unfit).removeprefix(f"{folder}: ")]) from None
    text += f"\n{tuned}" if tuned else ""
    lost = loss_lines(folder, experiment)
    return "\n".join([text, "silos lost:", *(f"  {line}" for line in lost), ""]) if lost else text


def _write_tuning(folder: Path, experiment: Experiment) -> str:
    if experiment.tuning is None:
        return ""
    text = "\n".join(["tuned:", *(f"  {line}" for line in chosen_lines(folder, experiment))]) + "\n"
    for name, content in (("tuning.csv", _csv(folder, experiment)), ("tuning.txt", text)):
        with replacing(folder / "report" / name) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return text


def _reason(choice: Choice) -> str:
    if choice.all_diverged:
        return f"(all {choice.points} points diverged; this is the first)"
    return f"({choice.metric} {choice.value:.4g}, the best of {choice.points})"


def _csv(folder: Path, experiment: Experiment) -> str:
    """A row a point. A key that an algorithm does not tune is empty there, and the metric of a point not yet tried."""
    assert experiment.tuning is not None
    metric, choices = experiment.tuning.metric, current_choices(folder, experiment)
    keys = list(dict.fromkeys(key for axes in experiment.tuning.grid.values() for key in axes))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["algorithm", "scenario", *keys, metric, "diverged", "chosen", "file"])
    done = set(finished(folder, digests(experiment)))
    for pair in experiment.pairs():
        for run in experiment.tuning_runs(pair):
            values = experiment.points(run.algorithm)[run.point].values
            outcome = _outcome(folder, run, metric) if run in done else None
            told = [outcome.metric, int(outcome.diverged)] if outcome else ["", ""]
            chosen = int(pair in choices and choices[pair].values == values)
            file = run.file(Path(), ".h5") if outcome else ""
            table.writerow([*pair, *(values.get(key, "") for key in keys), *told, chosen, file])
    return text.getvalue()


def _outcome(folder: Path, run: TuningRun, metric: str) -> Outcome:
    found = last_values(run.file(folder, ".h5"), [metric, "loss"])
    return Outcome(found[metric], found["loss"])


def _trial_files(folder: Path, pattern: str) -> list[tuple[Path, int]]:
    names = sorted(file.name for file in folder.glob("trial-*.h5"))
    return [(folder / name, int(match[1])) for name in names if (match := re.fullmatch(pattern, name))]


def _move(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    os.replace(file, to)
    # The choice that is written next is durable, and so must be what it is to fit.
    for folder in (to.parent, file.parent):
        sync(folder)
