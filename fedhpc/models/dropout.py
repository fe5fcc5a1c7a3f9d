"""Dropout (Srivastava et al. 2014) by random bytes that are given, not drawn.

So a client update's randomness comes from its own key alone, wherever and beside whatever it is computed (law 2).
"""

import torch
from torch import nn


class Noise:
    """A batch's random bytes, uint8 [..., total], which the dropout layers take in their order.

    ``taken`` counts the bytes of each example that are used up.
    """

    def __init__(self, values: torch.Tensor) -> None:
        self._values = values
        self.taken = 0

    def take(self, values: int) -> torch.Tensor:
        """The next bytes of each example, uint8 [..., count], for so many ``values`` of the whole batch. Raises
        ValueError where fewer are left."""
        start, self.taken = self.taken, self.taken + values // self._values.shape[:-1].numel()
        if self.taken > self._values.shape[-1]:
            raise ValueError(
                f"dropout needs {self.taken} bytes of noise an example and has {self._values.shape[-1]}; give noise "
                "of noise_bytes before every forward pass"
            )
        return self._values[..., start : self.taken]


class KeyedDropout(nn.Module):
    """Sets a value to zero with probability ``p``, a multiple of 1/256 below 1, and scales the others by 1/(1 - p).

    In training, a value is kept where its byte is at least 256 p; the bytes come from ``give_noise``. An activation
    [batch, channels, height, width] takes its bytes with the channels last: those of one example lie in the order
    (height, width, channels). In evaluation it is the identity.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.threshold = int(p * 256)
        if self.threshold != p * 256 or not 0 <= p < 1:
            raise ValueError(f"dropout: {p} is no multiple of 1/256 from 0 to below 1")
        self.scale = 1 / (1 - p)
        self.noise: Noise | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        if self.noise is None:
            raise ValueError("dropout has no noise; call give_noise before every forward pass")
        noise = self.noise.take(x.numel())
        if x.ndim == 4:
            batch, channels, height, width = x.shape
            return self.drop(x, noise.reshape(batch, height, width, channels).permute(0, 3, 1, 2))
        return self.drop(x, noise.reshape(x.shape))

    def drop(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """``x`` with dropout by ``noise``, uint8 of the shape of ``x``."""
        return x * (noise >= self.threshold).to(x.dtype).mul_(self.scale)


def give_noise(module: nn.Module, noise: torch.Tensor) -> None:
    """Hands ``noise``, uint8 [batch, noise_bytes], to the dropout layers of ``module`` for one forward pass."""
    given = Noise(noise)
    for layer in _dropouts(module):
        layer.noise = given


def noise_bytes(module: nn.Module, shape: tuple[int, ...]) -> int:
    """Random bytes that one example of ``shape`` takes; 0 for a model without dropout."""
    layers = _dropouts(module)
    if not layers:
        return 0
    sizes: list[int] = []
    hooks = [
        layer.register_forward_hook(lambda layer, inputs, output: sizes.append(output.numel())) for layer in layers
    ]
    was_training = module.training
    module.eval()
    with torch.no_grad():
        module(next(module.parameters()).new_zeros(1, *shape))
    module.train(was_training)
    for hook in hooks:
        hook.remove()
    return sum(sizes)


def _dropouts(module: nn.Module) -> list[KeyedDropout]:
    return [layer for layer in module.modules() if isinstance(layer, KeyedDropout)]
