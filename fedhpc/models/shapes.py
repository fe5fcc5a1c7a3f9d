"""Whether the data's examples fit the named model, told before anything is trained (law 6)."""

from fedhpc.models.settings import (
    CIFAR10CNN,
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CelebACNN,
    CIFAR10ResNet18,
    CIFAR100ResNet18,
    EfficientNet,
    FedCoreCNN,
    Logistic,
    Model,
    OwnModule,
    ResNet34,
    Sent140LSTM,
    ShakespeareLSTM,
    ShuffleNet,
    StackOverflowLSTM,
    Transformer,
    UNet3D,
)

_SMALLEST_SIDE = {
    EMNISTCNN: 6,
    MNISTCNN: 16,
    FedCoreCNN: 4,
    CIFAR100ResNet18: 1,
    CIFAR10ResNet18: 9,
    CelebACNN: 1,
    CIFAR10CNN: 1,
    ResNet34: 1,
    ShuffleNet: 1,
    EfficientNet: 1,
}
"""Pixels that are left with at least one after the model's convolutions and poolings; with CIFAR10ResNet18's batch
normalisation, with more than one, of which one example has a variance."""

_HALVINGS = 4
"""By which every side of a U-Net's volume is divided on its way down, and multiplied on its way up."""


def shape_mistakes(settings: Model, shape: tuple[int, ...], words: int = 0) -> list[str]:
    """Sentences on why the model cannot take examples of ``shape``, which are numbers of so many ``words``, or of none;
    none where it can. A module of one's own has to be tried."""
    lies = f"task.model.name: {settings.name} takes {{}}; the data's examples have the shape {list(shape)}; "
    match settings:
        case Logistic() | MLP() | OwnModule():
            return []
        case ShakespeareLSTM():
            return [] if len(shape) == 1 else [lies.format("texts, [characters]") + "name another"]
        case StackOverflowLSTM() | Transformer():
            return [] if len(shape) == 1 else [lies.format("sentences, [tokens]") + "name another"]
        case Sent140LSTM():
            if len(shape) != 1:
                return [lies.format("texts, [words]") + "name another"]
            told = f"task.model.name: {settings.name} reads words, and the data do not say which; take data of source "
            return [] if words else [told + "leaf, dataset sent140, or name another model"]
        case UNet3D():
            fits = len(shape) in (3, 4) and all(side and side % _HALVINGS == 0 for side in shape[:3])
            volumes = f"volumes, [depth, height, width] or with the channels behind, of sides that {_HALVINGS} divides"
            return [] if fits else [lies.format(volumes) + "crop or pad them, or name another"]
    if len(shape) not in (2, 3):
        return [lies.format("images, [height, width] or [height, width, channels]") + "name mlp or logistic"]
    smallest = _SMALLEST_SIDE[type(settings)]
    if min(shape[:2]) < smallest:
        return [lies.format(f"images of at least {smallest} by {smallest} pixels") + "name mlp or logistic"]
    return []
