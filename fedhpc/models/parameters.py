"""How many parameters a model has, without building it: what clients download and upload is known on a login node."""

import math
from itertools import pairwise

from fedhpc.models import tables
from fedhpc.models.settings import (
    CIFAR10CNN,
    EMNISTCNN,
    MLP,
    MNISTCNN,
    CelebACNN,
    CIFAR10ResNet18,
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


def parameters_of(settings: Model, shape: tuple[int, ...], classes: int, words: int = 0) -> int:
    """The trained parameters of ``build_model(settings, shape, classes)`` for data of so many ``words``; what batch
    normalisation gathers is not among them. A module of one's own is built for it, which takes torch; raises
    ExperimentError where that does not go."""
    match settings:
        case Logistic():
            return _dense(math.prod(shape), classes)
        case MLP():
            return _dense(math.prod(shape), *settings.hidden, classes)
        case ShakespeareLSTM():
            return 8 * classes + _lstm(8, 256) + _lstm(256, 256) + _dense(256, classes)
        case Sent140LSTM():
            width, units = tables.SENT140_WIDTH, tables.SENT140_UNITS
            last = _dense(units, tables.SENT140_LINEAR, classes)
            return width * words + _lstm(width, units) + _lstm(units, units) + last
        case StackOverflowLSTM():
            return 96 * classes + 4 * 670 * (96 + 670 + 1) + _dense(670, 96, classes)
        case Transformer():
            return _transformer(settings, shape[0], classes)
        case UNet3D():
            return _unet((*shape, 1)[3], classes)
        case OwnModule():
            from fedhpc.models.own import build_own

            return sum(parameter.numel() for parameter in build_own(settings, shape, classes).parameters())
        case _:
            return _of_images(settings, (*shape, 1)[:3], classes)


def _of_images(settings: Model, shape: tuple[int, ...], classes: int) -> int:
    height, width, channels = shape
    match settings:
        case EMNISTCNN():
            left = ((height - 4) // 2) * ((width - 4) // 2)
            return _convolution(3, channels, 32) + _convolution(3, 32, 64) + _dense(64 * left, 128, classes)
        case MNISTCNN():
            left = math.prod(((side - 4) // 2 - 4) // 2 for side in (height, width))
            return _convolution(5, channels, 32) + _convolution(5, 32, 64) + _dense(64 * left, 512, classes)
        case FedCoreCNN():
            left = (height // 4) * (width // 4)
            return _convolution(5, channels, 32) + _convolution(5, 32, 64) + _dense(64 * left, 512, classes)
        case CelebACNN() | CIFAR10CNN():
            each = tables.CONVNET_CHANNELS
            for _ in range(4):
                height, width = (height + 2) // 2, (width + 2) // 2
            of_convolutions = _convolution(3, channels, each) + 3 * _convolution(3, each, each)
            return of_convolutions + 2 * each + _dense(each * height * width, classes)
        case ShuffleNet():
            return _shufflenet(channels, classes)
        case EfficientNet():
            return _efficientnet(channels, classes)
        case _:
            first = _normalized(3 if isinstance(settings, CIFAR10ResNet18) else 7, channels, 64)
            return first + _stages(settings) + _dense(512, classes)


def _dense(*widths: int) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))


def _lstm(inputs: int, units: int) -> int:
    """Of one layer of torch's, which has two biases."""
    return 4 * units * (inputs + units + 2)


def _convolution(side: int, inputs: int, outputs: int) -> int:
    return (side**2 * inputs + 1) * outputs


def _normalized(side: int, inputs: int, outputs: int) -> int:
    """Of a convolution without a bias, and of the normalisation behind it: two parameters a channel."""
    return side**2 * inputs * outputs + 2 * outputs


def _stages(settings: Model) -> int:
    """Of a ResNet: so many blocks a stage, two convolutions a block; and where a stage widens, its shortcut."""
    blocks = tables.RESNET34_BLOCKS if isinstance(settings, ResNet34) else tables.RESNET18_BLOCKS
    count, before = 0, tables.RESNET_WIDTHS[0]
    for width, repeats in zip(tables.RESNET_WIDTHS, blocks, strict=True):
        count += _normalized(3, before, width) + (2 * repeats - 1) * _normalized(3, width, width)
        if width != before:
            count += _normalized(1, before, width)
        before = width
    return count


def _shufflenet(channels: int, classes: int) -> int:
    before = tables.SHUFFLENET_FIRST
    count = _normalized(3, channels, before)
    for width, units in tables.SHUFFLENET_STAGES:
        half = width // 2
        depthwise, pointwise = _normalized(3, 1, half), _normalized(1, half, half)
        # The first unit's side, then its body, then the bodies of the others.
        count += _normalized(3, 1, before) + _normalized(1, before, half)
        count += _normalized(1, before, half) + depthwise + pointwise
        count += (units - 1) * (2 * pointwise + depthwise)
        before = width
    return count + _normalized(1, before, tables.SHUFFLENET_LAST) + _dense(tables.SHUFFLENET_LAST, classes)


def _efficientnet(channels: int, classes: int) -> int:
    before = tables.EFFICIENTNET_FIRST
    count = _normalized(3, channels, before)
    for blocks, kernel, _, expansion, width in tables.EFFICIENTNET_STAGES:
        for _ in range(blocks):
            wide = expansion * before
            count += _normalized(1, before, wide) if expansion > 1 else 0
            count += _normalized(kernel, 1, wide) + _dense(wide, before // 4, wide) + _normalized(1, wide, width)
            before = width
    return count + _normalized(1, before, tables.EFFICIENTNET_LAST) + _dense(tables.EFFICIENTNET_LAST, classes)


def _transformer(settings: Transformer, time: int, tokens: int) -> int:
    width = settings.width
    of_norm, of_attention = 2 * width, _dense(width, 3 * width) + _dense(width, width)
    of_block = 2 * of_norm + of_attention + _dense(width, tables.TRANSFORMER_WIDENING * width, width)
    return (tokens + time) * width + settings.layers * of_block + of_norm + _dense(width, tokens)


def _unet(channels: int, classes: int) -> int:
    first = tables.UNET_FIRST
    # Inputs and outputs of the convolutions but the first and the last, in units of the first one's channels.
    widths = [(1, 2), (2, 2), (2, 4), (4, 4), (4, 8), (12, 4), (4, 4), (6, 2), (2, 2)]
    of_first = (27 * channels + 1) * first + 1  # with a bias and a slope
    of_others = sum(27 * inputs * outputs * first**2 + 2 * outputs * first + 1 for inputs, outputs in widths)
    return of_first + of_others + _dense(2 * first, classes)
