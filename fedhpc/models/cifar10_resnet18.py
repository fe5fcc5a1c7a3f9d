"""The CIFAR-10 network of FedCompass (Li et al. 2024, tables 10 and 11): ResNet-18 (He et al. 2016) with batch
normalisation (Ioffe and Szegedy 2015), whose running means and variances are the model's statistics."""

from torch import nn

from fedhpc.models.layers import GlobalAverage, Image
from fedhpc.models.resnet18 import INPUTS, OUTPUTS, stages


def cifar10_resnet18(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], images of at least 9 by 9; returns logits, [batch, classes].

    The last average is over the whole picture, which is the table's 4 by 4 where images are 32 by 32. From 9 by 9 on
    the last normalisation sees 2 by 2 values of a channel or more, so that a batch of one example can train.
    """
    _, _, channels = (*shape, 1)[:3]
    layers: list[nn.Module] = [
        Image(),
        nn.Conv2d(channels, INPUTS, 3, padding=1, bias=False),
        nn.BatchNorm2d(INPUTS),
        nn.ReLU(),
    ]
    return nn.Sequential(*layers, *stages(nn.BatchNorm2d), GlobalAverage(), nn.Linear(OUTPUTS, classes))
