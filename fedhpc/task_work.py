"""What clients can be asked for that does not go with what the task learns, told when an experiment is read."""

from collections.abc import Iterable, Iterator

from fedhpc.federation.schedulers import AnyAlgorithm
from fedhpc.task import Classification, Learning, Segmentation


def work_mistakes(task: Learning, algorithms: Iterable[tuple[str, AnyAlgorithm]]) -> list[str]:
    """Sentences on why these algorithms, which come with their names, cannot train this task; each once."""
    return list(dict.fromkeys(told for name, algorithm in algorithms for told in _of_one(task, name, algorithm)))


def _of_one(task: Learning, name: str, algorithm: AnyAlgorithm) -> Iterator[str]:
    client = algorithm.client
    if client.within_deadline == "coreset":
        key = f"algorithms.{name}.client.within_deadline: coreset"
        if not isinstance(task, Classification):
            yield (
                f"{key} tells examples by the gradient of the one label that each has, which {task.kind} has not; take "
                "fewer_epochs or drop"
            )
        elif task.pictures is not None:
            yield f"{key} chooses among examples as they lie in the data; leave task.pictures out, or take fewer_epochs"
    if client.distillation and isinstance(task, Segmentation):
        yield (
            f"algorithms.{name}.client.distillation: is a cross-entropy, and segmentation learns by the Dice score; "
            "leave it out"
        )
