"""The CIFAR-10 network of FedCompass (Li et al. 2024, tables 10 and 11): ResNet-18 (He et al. 2016) with batch
normalisation (Ioffe and Szegedy 2015), whose running means and variances are the model's statistics."""

from torch import nn

from fedhpc.models.layers import GlobalAverage, Image, Residual


def cifar10_resnet18(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of at least 9 by 9; returns logits, [batch, classes].

    The last average is over the whole picture, which is the table's 4 by 4 where images are 32 by 32. From 9 by 9 on
    the last normalisation sees 2 by 2 values of a channel or more, so that a batch of one example can train.
    """
    _, _, channels = (*shape, 1)[:3]
    layers: list[nn.Module] = [
        Image(),
        nn.Conv2d(channels, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    ]
    width = 64
    for stage, next_width in enumerate((64, 128, 256, 512)):
        layers += [*_block(width, next_width, 1 if stage == 0 else 2), *_block(next_width, next_width, 1)]
        width = next_width
    return nn.Sequential(*layers, GlobalAverage(), nn.Linear(512, classes))


def _block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    body = nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
    )
    shortcut = nn.Sequential()
    if inputs != outputs:
        shortcut.append(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False))
        shortcut.append(nn.BatchNorm2d(outputs))
    return [Residual(body, shortcut), nn.ReLU()]
