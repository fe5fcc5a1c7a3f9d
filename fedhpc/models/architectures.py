"""The models as torch modules. They flatten what they are given, and return a score for each class."""

import math
from itertools import pairwise

from torch import nn

from fedhpc.models.settings import Logistic, Model


def build_model(settings: Model, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The named model, with torch's default initial weights (drawn from torch's global generator).

    Takes float32 [batch, *shape], returns logits, float32 [batch, classes].
    """
    hidden = [] if isinstance(settings, Logistic) else settings.hidden
    widths = [math.prod(shape), *hidden, classes]
    layers: list[nn.Module] = [nn.Flatten()]
    for width, next_width in pairwise(widths):
        layers += [nn.Linear(width, next_width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
