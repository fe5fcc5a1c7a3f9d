"""The gradient of fully connected layers in closed form (Rumelhart et al. 1986), for many clients' models at once.

For models of this size autograd's bookkeeping takes longer than the arithmetic; a dozen matrix operations, written
straight into the flat gradient, leave it out. With a leading client axis each of them serves a whole stack of clients.
"""

from functools import lru_cache

import torch
from torch import nn


class DenseGradient:
    """The gradient of ``build_model``'s networks that are linear layers with ReLU between them.

    ``weights`` and ``gradient``: float32 [clients, parameters], row by row in ``flatten``'s order.
    """

    def __init__(self, module: nn.Module, weights: torch.Tensor, gradient: torch.Tensor) -> None:
        self._layers = []
        position, clients = 0, len(weights)
        parameters = [parameter.shape for parameter in module.parameters()]
        for outputs, inputs in parameters[::2]:
            weight = slice(position, position + outputs * inputs)
            bias = slice(weight.stop, weight.stop + outputs)
            self._layers.append(
                (
                    weights[:, weight].view(clients, outputs, inputs),
                    weights[:, bias].view(clients, 1, outputs),
                    gradient[:, weight].view(clients, outputs, inputs),
                    gradient[:, bias].view(clients, 1, outputs),
                )
            )
            position = bias.stop
        self._of_first = lru_cache(maxsize=None)(self._of_the_first)

    def __call__(self, features: torch.Tensor, targets: torch.Tensor, share: torch.Tensor) -> None:
        """Puts the gradient of each client's loss, the sum of share times cross-entropy, in its place.

        ``features``: float32 [clients, batch, inputs]; the clients may be the first few only. ``share``: float32
        [clients, batch, 1], an example's weight in its client's loss: one over the batch, or 0 where a row only fills
        up. ``targets``: float32 [clients, batch, classes], the one-hot label times share.
        """
        layers = self._of_first(len(features))
        inputs = [features]
        for weight, bias, _, _ in layers[:-1]:
            inputs.append(torch.baddbmm(bias, inputs[-1], weight.transpose(1, 2)).relu_())
        weight, bias, _, _ = layers[-1]
        scores = torch.baddbmm(bias, inputs[-1], weight.transpose(1, 2))
        # d loss / d scores = share * (softmax - one-hot label).
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
