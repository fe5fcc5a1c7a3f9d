"""The picture of an experiment's partition, which ``plan --draw`` and ``data describe --draw`` share."""

from pathlib import Path

from fedhpc.data.federated import FederatedData
from fedhpc.data.partition_words import asked, dealt
from fedhpc.experiment import Experiment
from fedhpc.mistakes import ExperimentError
from fedhpc.task import Classification, Learning


def refuse_undrawable(experiment: Experiment, draw: Path) -> None:
    """Raises ExperimentError where there is nothing to draw, or nowhere to draw it."""
    from fedhpc.analysis.partition_figure import SUFFIXES

    mistakes = []
    if not isinstance(experiment.task, Learning):
        mistakes.append("the null task has no data, so that there is no partition to draw; leave --draw out")
    elif not isinstance(experiment.task, Classification):
        mistakes.append(f"{experiment.task.kind} has no class an example, which is what is drawn; leave --draw out")
    if draw.suffix.lower() not in SUFFIXES:
        mistakes.append(f"'{draw.name}' is no picture that can be drawn; end its name in {', '.join(SUFFIXES)}")
    if not draw.parent.is_dir():
        mistakes.append(f"there is no folder {draw.parent}; make it first")
    if mistakes:
        raise ExperimentError(Path("--draw"), mistakes)


def draw_partition(experiment: Experiment, data: FederatedData, draw: Path) -> None:
    """Draws who holds how much of what, as a file of its suffix's kind."""
    from fedhpc.analysis.partition_figure import partition_figure

    assert isinstance(experiment.task, Learning)
    counts = data.class_counts
    title = f"{asked(experiment.task.partition)}\n{dealt(counts)}"
    stragglers = data.stragglers if experiment.task.stragglers is not None else None
    partition_figure(counts, data.client_names, data.class_names, title, draw, stragglers)
