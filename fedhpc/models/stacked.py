"""Many clients' copies of one model, computed as one batched computation with a leading client axis.

The clients share no parameters. So the gradient of the sum over clients of each one's mean loss is, row by row, every
client's own gradient, and ordinary autograd finds them all at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from fedhpc.models.dropout import KeyedDropout, Noise, noise_bytes
from fedhpc.models.grouped_convolution import GroupedPictures
from fedhpc.models.layers import LSTM, Codes, GlobalAverage, Image, Residual
from fedhpc.models.patch_convolution import PatchPictures
from fedhpc.models.stacked_lstm import stacked_lstm


@dataclass(frozen=True, slots=True)
class _Given:
    """What one forward pass goes by, beside the features."""

    parameters: Sequence[torch.Tensor]
    noise: Noise | None

    @property
    def clients(self) -> int:
        return len(self.parameters[0])


_Step = Callable[[torch.Tensor, _Given], torch.Tensor]


class StackedModel:
    """``module``, a tree of the layers that the models here are made of, for stacks of clients of any height C.

    ``shape`` is one example's. ``convolution`` is how clients' convolutions become one: as groups of a convolution, or
    as batched products of patches. The module's own parameters are not used, only their order and shapes. Raises
    TypeError where the module holds a layer of another kind.
    """

    def __init__(
        self, module: nn.Module, shape: tuple[int, ...], convolution: Literal["grouped", "patches"] = "patches"
    ) -> None:
        parameters = list(module.parameters())
        self._shapes = [parameter.shape for parameter in parameters]
        self._sizes = [parameter.numel() for parameter in parameters]
        self._index = {id(parameter): index for index, parameter in enumerate(parameters)}
        self._pictures = GroupedPictures() if convolution == "grouped" else PatchPictures()
        self._holds_pictures = False
        self._step = self._steps_of(module)
        self.noise_bytes = noise_bytes(module, shape)

    def views(self, weights: torch.Tensor) -> list[torch.Tensor]:
        """``weights``, float32 [C, parameters], as the parameters' views [C, *shape], in the module's order."""
        pieces = torch.split(weights, self._sizes, 1)
        return [piece.view(-1, *shape) for piece, shape in zip(pieces, self._shapes, strict=True)]

    def forward(self, weights: torch.Tensor, features: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        """The logits, float32 [C, batch, classes], of ``features`` [C, batch, *shape], each client by its own row of
        ``weights``, float32 [C, parameters].

        ``noise`` is for dropout, uint8 [C, batch, noise_bytes]; without it nothing is dropped.
        """
        return self.forward_views(self.views(weights), features, noise)

    def forward_views(
        self, parameters: Sequence[torch.Tensor], features: torch.Tensor, noise: torch.Tensor | None
    ) -> torch.Tensor:
        """``forward`` for the parameters as ``views`` gives them. Gradients with respect to the views spare the
        gathering of one flat gradient."""
        return self._step(features, _Given(parameters, None if noise is None else Noise(noise)))

    def _steps_of(self, layer: nn.Module) -> _Step:
        pictures = self._pictures
        match layer:
            case nn.Sequential():
                return _one_after_the_other([self._steps_of(inner) for inner in layer])
            case Residual():
                body, shortcut = self._steps_of(layer.body), self._steps_of(layer.shortcut)
                return lambda x, given: body(x, given) + shortcut(x, given)
            case Image():
                self._holds_pictures = True
                return lambda x, given: pictures.enter(x)
            case nn.Conv2d() if layer.groups == 1 and set(layer.dilation) == {1} and len(set(layer.stride)) == 1:
                return self._convolution(layer)
            case nn.GroupNorm():
                weight, bias = self._index[id(layer.weight)], self._index[id(layer.bias)]
                return lambda x, given: pictures.normalize(x, layer, given.parameters[weight], given.parameters[bias])
            case nn.MaxPool2d():
                return lambda x, given: pictures.pool(x, layer)
            case GlobalAverage():
                self._holds_pictures = False
                return lambda x, given: pictures.average(x, given.clients)
            case nn.Flatten() if self._holds_pictures:
                self._holds_pictures = False
                return lambda x, given: pictures.leave(x, given.clients)
            case nn.Flatten():
                return lambda x, given: x.flatten(2)
            case nn.ReLU():
                return lambda x, given: torch.relu(x)
            case KeyedDropout():
                return self._dropout(layer)
            case Codes():
                return lambda x, given: x.long()
            case nn.Linear():
                return self._linear(layer)
            case Codes():
                return lambda x, given: x.long()
            case nn.Embedding():
                return self._embedding(layer)
            case LSTM():
                index = [self._index[id(parameter)] for parameter in layer.parameters()]
                return lambda x, given: stacked_lstm(x, *(given.parameters[number] for number in index))
        raise TypeError(f"a stacked model cannot compute {layer}; build it of the layers that the others use")

    def _convolution(self, layer: nn.Conv2d) -> _Step:
        weight = self._index[id(layer.weight)]
        bias = None if layer.bias is None else self._index[id(layer.bias)]

        def step(x: torch.Tensor, given: _Given) -> torch.Tensor:
            own_bias = None if bias is None else given.parameters[bias]
            return self._pictures.convolve(x, layer, given.parameters[weight], own_bias)

        return step

    def _linear(self, layer: nn.Linear) -> _Step:
        weight, bias = self._index[id(layer.weight)], self._index[id(layer.bias)]

        def step(x: torch.Tensor, given: _Given) -> torch.Tensor:
            own_bias = given.parameters[bias].unsqueeze(1)
            scores = torch.baddbmm(own_bias, x.flatten(1, -2), given.parameters[weight].mT)
            return scores.view(*x.shape[:-1], -1)

        return step

    def _embedding(self, layer: nn.Embedding) -> _Step:
        weight = self._index[id(layer.weight)]

        def step(tokens: torch.Tensor, given: _Given) -> torch.Tensor:
            client = torch.arange(given.clients, device=tokens.device)
            return given.parameters[weight][client[:, None, None], tokens]

        return step

    def _dropout(self, layer: KeyedDropout) -> _Step:
        on_pictures = self._holds_pictures

        def step(x: torch.Tensor, given: _Given) -> torch.Tensor:
            if given.noise is None:
                return x
            noise = given.noise.take(x.numel())
            return layer.drop(x, self._pictures.noise_for(x, noise) if on_pictures else noise.reshape(x.shape))

        return step


def _one_after_the_other(steps: Sequence[_Step]) -> _Step:
    def chain(x: torch.Tensor, given: _Given) -> torch.Tensor:
        for step in steps:
            x = step(x, given)
        return x

    return chain
