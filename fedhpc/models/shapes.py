"""Whether the data's examples fit the named model, told before anything is trained (law 6)."""

from fedhpc.models.settings import (
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CIFAR10ResNet18,
    CIFAR100ResNet18,
    FedCoreCNN,
    Logistic,
    Model,
    ShakespeareLSTM,
)

_SMALLEST_SIDE = {EMNISTCNN: 6, MNISTCNN: 16, FedCoreCNN: 4, CIFAR100ResNet18: 1, CIFAR10ResNet18: 9}
"""Pixels that are left with at least one after the model's convolutions and poolings; with batch normalisation, with
more than one, of which one example has a variance."""


def shape_mistakes(settings: Model, shape: tuple[int, ...]) -> list[str]:
    """Sentences on why the model cannot take examples of ``shape``; none where it can."""
    lies = f"task.model.name: {settings.name} takes {{}}; the data's examples have the shape {list(shape)}; "
    if isinstance(settings, Logistic | MLP):
        return []
    if isinstance(settings, ShakespeareLSTM):
        return [] if len(shape) == 1 else [lies.format("texts, [characters]") + "name another"]
    if type(settings) not in _SMALLEST_SIDE:
        return [
            f"task.model.name: {settings.name} scores every next token of a sentence, which a classification task does "
            "not have; name another"
        ]
    if len(shape) not in (2, 3):
        return [lies.format("images, [height, width] or [height, width, channels]") + "name mlp or logistic"]
    smallest = _SMALLEST_SIDE[type(settings)]
    if min(shape[:2]) < smallest:
        return [lies.format(f"images of at least {smallest} by {smallest} pixels") + "name mlp or logistic"]
    return []
