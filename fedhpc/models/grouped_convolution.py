"""Pictures of many clients as one picture with all the clients' channels: each client is a group of a convolution.

A picture is [batch, clients * channels, height, width].
"""

import torch
from torch import nn
from torch.nn import functional


class GroupedPictures:
    """What a stacked model does to pictures, with each client as a group. ``clients`` is the stack's height C."""

    def enter(self, images: torch.Tensor) -> torch.Tensor:
        """[C, batch, height, width] or [C, batch, height, width, channels] to a picture."""
        if images.ndim == 4:
            return images.transpose(0, 1)
        return images.permute(1, 0, 4, 2, 3).flatten(1, 2)

    def convolve(
        self, x: torch.Tensor, layer: nn.Conv2d, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """``layer`` with each client's own ``weight`` [C, outputs, inputs, ...] and ``bias`` [C, outputs]."""
        flat_bias = None if bias is None else bias.flatten()
        return functional.conv2d(x, weight.flatten(0, 1), flat_bias, layer.stride, layer.padding, groups=len(weight))

    def normalize(self, x: torch.Tensor, layer: nn.GroupNorm, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """``layer`` with each client's own ``weight`` and ``bias``, [C, channels]."""
        return functional.group_norm(x, len(weight) * layer.num_groups, weight.flatten(), bias.flatten(), layer.eps)

    def pool(self, x: torch.Tensor, layer: nn.MaxPool2d) -> torch.Tensor:
        """``layer`` on every picture."""
        return functional.max_pool2d(x, layer.kernel_size, layer.stride, layer.padding)

    def noise_for(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """``noise``, uint8 [C, batch, height * width * channels], in the shape of ``x``."""
        clients, batch = noise.shape[:2]
        channels = x.shape[1] // clients
        return noise.reshape(clients, batch, *x.shape[2:], channels).permute(1, 0, 4, 2, 3).flatten(1, 2)

    def average(self, x: torch.Tensor, clients: int) -> torch.Tensor:
        """The mean over height and width: [C, batch, channels]."""
        return x.mean((2, 3)).view(len(x), clients, -1).transpose(0, 1)

    def leave(self, x: torch.Tensor, clients: int) -> torch.Tensor:
        """Every picture as a row in torch's order (channels, height, width): [C, batch, features]."""
        return x.reshape(len(x), clients, -1).transpose(0, 1)
