"""The gradient of fully connected layers in closed form (Rumelhart et al. 1986), for many clients' models at once.

For models of this size autograd's bookkeeping takes longer than the arithmetic; a dozen matrix operations, written
straight into the flat gradient, leave it out. With a leading client axis each of them serves a whole stack of clients.
"""

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import nn


def dense_scores(module: nn.Module, weights: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """The logits, float32 [clients, batch, classes], of ``features`` [clients, batch, inputs], each client by its own
    row of ``weights``, float32 [clients, parameters] in ``flatten``'s order. Only the parameters' shapes of ``module``
    are used."""
    *hidden, (weight, bias) = _layers(module, weights)
    for inner, inner_bias in hidden:
        features = torch.baddbmm(inner_bias, features, inner.transpose(1, 2)).relu_()
    return torch.baddbmm(bias, features, weight.transpose(1, 2))


class DenseGradient:
    """The gradient of ``build_model``'s networks that are linear layers with ReLU between them.

    ``weights`` and ``gradient``: float32 [clients, parameters], row by row in ``flatten``'s order.
    """

    def __init__(self, module: nn.Module, weights: torch.Tensor, gradient: torch.Tensor) -> None:
        pairs = zip(_layers(module, weights), _layers(module, gradient), strict=True)
        self._layers = [(*of_weights, *of_gradient) for of_weights, of_gradient in pairs]
        self._of_first = lru_cache(maxsize=None)(self._of_the_first)

    def __call__(self, features: torch.Tensor, targets: torch.Tensor, share: torch.Tensor) -> None:
        """Puts the gradient of each client's loss, the sum of targets times negative log-probabilities, in its place.

        ``features``: float32 [clients, batch, inputs]; the clients may be the first few only. ``targets``: float32
        [clients, batch, classes], what an example counts in its client's loss times the one-hot label; a teacher's
        probabilities may be among them. ``share``: float32 [clients, batch, 1], their sums over the classes; 0 where a
        row only fills up.
        """
        layers = self._of_first(len(features))
        inputs = [features]
        for weight, bias, _, _ in layers[:-1]:
            inputs.append(torch.baddbmm(bias, inputs[-1], weight.transpose(1, 2)).relu_())
        weight, bias, _, _ = layers[-1]
        scores = torch.baddbmm(bias, inputs[-1], weight.transpose(1, 2))
        # d loss / d scores = share * softmax - targets.
        error = torch.softmax(scores, 2).mul_(share).sub_(targets)
        for layer in reversed(range(len(layers))):
            weight, _, weight_gradient, bias_gradient = layers[layer]
            weight_gradient.baddbmm_(error.transpose(1, 2), inputs[layer], beta=0)
            torch.sum(error, 1, keepdim=True, out=bias_gradient)
            if layer:
                error = torch.bmm(error, weight).mul_(inputs[layer] > 0)

    def _of_the_first(self, clients: int) -> list[tuple[torch.Tensor, ...]]:
        """Each layer's weight, bias and their gradients, of so many clients."""
        return [tuple(tensor[:clients] for tensor in layer) for layer in self._layers]


def _layers(module: nn.Module, vectors: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each layer's weight [clients, outputs, inputs] and bias [clients, 1, outputs] as views of ``vectors``, [clients,
    parameters]."""
    position, clients = 0, len(vectors)
    parameters = [parameter.shape for parameter in module.parameters()]
    for outputs, inputs in parameters[::2]:
        weight = slice(position, position + outputs * inputs)
        bias = slice(weight.stop, weight.stop + outputs)
        yield vectors[:, weight].view(clients, outputs, inputs), vectors[:, bias].view(clients, 1, outputs)
        position = bias.stop
