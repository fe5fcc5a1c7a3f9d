"""``fedhpc data describe``: what an experiment's clients hold, in lines and in a picture."""

from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from fedhpc.data.description import description
from fedhpc.data.federated import open_prepared
from fedhpc.data.partition_words import asked
from fedhpc.data.preparation import prepared_data, prepared_file
from fedhpc.data.settings import DrawnPartition
from fedhpc.experiment import Experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.task import Learning
from workflow.partition_drawing import draw_partition, refuse_undrawable


def print_description(experiment: Experiment, folder: Path, draw: Path | None, console: Console) -> None:
    """Prints what trial 0's clients hold, and draws it where that is asked for. What was prepared in ``folder`` is
    read; else the data are prepared for this alone. Raises ExperimentError where there are no data, or nothing to draw.
    """
    if not isinstance(experiment.task, Learning):
        raise ExperimentError(experiment.file, ["task.kind: the null task has no data; `fedhpc plan` says what it has"])
    if draw is not None:
        refuse_undrawable(experiment, draw)
    with TemporaryDirectory(prefix="fedhpc-describe-") as scratch:
        known = prepared_file(experiment, folder)
        there = known is not None and known.exists()
        prepared = prepared_data(experiment, folder if there else Path(scratch))
        assert prepared is not None
        data = open_prepared(prepared)
        own = isinstance(experiment.task.partition, DrawnPartition) and experiment.task.partition.each_trial
        each = "; every trial has one of its own, and this is trial 0" if own else ""
        _print(console, f"{experiment.name}: partition {asked(experiment.task.partition)}{each}")
        lines = list(description(experiment.task, data))
        width = max(len(heading) for heading, _ in lines)
        for heading, text in lines:
            _print(console, f"  {heading:<{width}}  {text}")
        if draw is not None:
            draw_partition(experiment, data, draw)
            _print(console, f"the partition is drawn in {draw}")


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
