"""ResNet-18 (He et al. 2016, table 1) with group normalisation (Wu and He 2018) in place of batch normalisation.

Reddi et al. 2021 train it on CIFAR-100, with two groups in each normalisation, and Hard et al. after them. The code
they published is of another form with as many parameters: the normalisation stands before each convolution, and no
stage after the first pooling halves the picture. Here it is as the papers say.
"""

from torch import nn

from fedhpc.models.layers import GlobalAverage, Image, Residual

_GROUPS = 2


def cifar100_resnet18(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of any size; returns logits, [batch, classes]."""
    _, _, channels = (*shape, 1)[:3]
    layers: list[nn.Module] = [
        Image(),
        nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False),
        nn.GroupNorm(_GROUPS, 64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    width = 64
    for stage, next_width in enumerate((64, 128, 256, 512)):
        layers += [*_block(width, next_width, 1 if stage == 0 else 2), *_block(next_width, next_width, 1)]
        width = next_width
    return nn.Sequential(*layers, GlobalAverage(), nn.Linear(512, classes))


def _block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    body = nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.GroupNorm(_GROUPS, outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.GroupNorm(_GROUPS, outputs),
    )
    shortcut = nn.Sequential()
    if inputs != outputs:
        shortcut.append(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False))
        shortcut.append(nn.GroupNorm(_GROUPS, outputs))
    return [Residual(body, shortcut), nn.ReLU()]
