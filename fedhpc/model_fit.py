"""Whether a model goes with the data it is to learn and with those who are to train it, told before a run (law 6)."""

from collections.abc import Iterable

from fedhpc.federation.schedulers import AnyAlgorithm
from fedhpc.models.settings import EfficientNet, Model, OwnModule, Sent140LSTM
from fedhpc.models.shapes import shape_mistakes
from fedhpc.normalization import statistics_mistakes


def model_mistakes(
    model: Model,
    shape: tuple[int, ...],
    places: tuple[int, ...],
    class_names: tuple[str, ...],
    words: tuple[str, ...],
    algorithms: Iterable[tuple[str, AnyAlgorithm]],
) -> list[str]:
    """Sentences on why the model cannot learn from examples of ``shape`` with labels at these ``places``, or not by
    these algorithms, which come with their names.

    A model with a file, be it of weights or a module of one's own, is built for it, which takes torch; its paths are as
    they were found. Raises ExperimentError where the file does not fit.
    """
    classes = len(class_names)
    if mistakes := shape_mistakes(model, shape, len(words)):
        return mistakes
    if isinstance(model, OwnModule):
        return _own_mistakes(model, shape, places, classes, list(algorithms))
    if (isinstance(model, EfficientNet) and model.weights) or (isinstance(model, Sent140LSTM) and model.vectors):
        from fedhpc.models.architectures import build_model

        build_model(model, shape, classes, words)
    return []


def _own_mistakes(
    model: OwnModule,
    shape: tuple[int, ...],
    places: tuple[int, ...],
    classes: int,
    algorithms: list[tuple[str, AnyAlgorithm]],
) -> list[str]:
    from fedhpc.models.own_checks import check_own

    found = check_own(model, shape, classes, places)
    mistakes = statistics_mistakes(model, algorithms) if found.statistics else []
    if not found.ends_linearly:
        mistakes += [
            f"algorithms.{name}.client.within_deadline: coresets go by the last fully connected layer, and the logits "
            f"of {model.callable} are no such layer's output; end the module with nn.Linear, or leave it out"
            for name, algorithm in algorithms
            if algorithm.client.within_deadline == "coreset"
        ]
    return list(dict.fromkeys(mistakes))
