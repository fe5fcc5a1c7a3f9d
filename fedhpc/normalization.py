"""What does not go with a model whose normalisation keeps running statistics, told when an experiment is read.

For them a server update has one rule, a mean of the clients' own (fedhpc.federation.running_statistics).
"""

from collections.abc import Iterable, Iterator

from fedhpc.federation.schedulers import AnyAlgorithm
from fedhpc.federation.schedulers.fare_dust import FareDustSettings
from fedhpc.federation.schedulers.feast import FeastSettings
from fedhpc.models.settings import Model, keeps_running_statistics


def normalization_mistakes(model: Model, algorithms: Iterable[tuple[str, AnyAlgorithm]]) -> list[str]:
    """Sentences on why the model cannot be trained by these algorithms, which come with their names; each once."""
    return statistics_mistakes(model, algorithms) if keeps_running_statistics(model) else []


def statistics_mistakes(model: Model, algorithms: Iterable[tuple[str, AnyAlgorithm]]) -> list[str]:
    """The same of a model that is known to keep running statistics."""
    found = [
        f"task.model.name: {model.name} keeps running statistics, which {words}; take the model with group "
        f"normalisation, cifar100_resnet18, or leave {key} out of algorithms.{name}"
        for name, algorithm in algorithms
        for key, words in _conflicts(algorithm)
    ]
    return list(dict.fromkeys(found))


def _conflicts(algorithm: AnyAlgorithm) -> Iterator[tuple[str, str]]:
    """The keys that are in the way, and what of them."""
    if isinstance(algorithm, FareDustSettings | FeastSettings):
        yield f"scheduler {algorithm.scheduler}", "late updates, teachers and auxiliary models have no rule for"
    elif algorithm.client.distillation:
        yield "client.distillation", "a teacher has no rule for"
    if algorithm.privacy is not None:
        yield "privacy", "no clip bounds and noise would make negative"
