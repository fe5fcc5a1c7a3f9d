"""The gradient of fully connected layers in closed form (Rumelhart et al. 1986), which spares autograd's bookkeeping.

For models of this size autograd's bookkeeping takes longer than the arithmetic; a dozen matrix operations, written
straight into the flat gradient, leave it out.
"""

import torch
from torch import nn
from torch.nn.functional import one_hot


class DenseGradient:
    """Mean cross-entropy's gradient for ``build_model``'s networks: linear layers with ReLU between them.

    ``parameters`` are the network's, weight and bias by turns; each one's ``grad`` is where its gradient goes.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self._layers = []
        for weight, bias in zip(parameters[::2], parameters[1::2], strict=True):
            assert weight.grad is not None
            assert bias.grad is not None
            self._layers.append((weight.detach(), bias.detach(), weight.grad, bias.grad))

    def __call__(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Puts the gradient for ``features``, float32 [batch, *shape], and ``labels``, int64 [batch], in its place."""
        inputs = [features.flatten(1)]
        for weight, bias, _, _ in self._layers[:-1]:
            inputs.append(torch.addmm(bias, inputs[-1], weight.t()).relu_())
        weight, bias, _, _ = self._layers[-1]
        scores = torch.addmm(bias, inputs[-1], weight.t())
        # d loss / d scores = (softmax - one-hot label) / batch.
        error = torch.softmax(scores, 1).sub_(one_hot(labels, scores.shape[1])).mul_(1.0 / len(labels))
        for layer in reversed(range(len(self._layers))):
            weight, _, weight_gradient, bias_gradient = self._layers[layer]
            torch.mm(error.t(), inputs[layer], out=weight_gradient)
            torch.sum(error, 0, out=bias_gradient)
            if layer:
                error = torch.mm(error, weight).mul_(inputs[layer] > 0)
