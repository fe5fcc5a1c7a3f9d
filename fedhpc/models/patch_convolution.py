"""Pictures of many clients with the channels last, and convolution as one batched product of patches and kernels.

A picture is [clients, batch, height, width, channels].
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class _Convolution(torch.autograd.Function):
    """Convolution by patches (im2col): forward and both gradients are a batched product each.

    ``x`` [C, batch, height, width, inputs], ``weight`` [C, outputs, inputs, rows, columns], ``bias`` [C, outputs] or
    None, to [C, batch, height', width', outputs]. The patches are kept for the weight's gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: int, padding: int
    ) -> torch.Tensor:
        clients, outputs, inputs, rows, columns = weight.shape
        padded = functional.pad(x, (0, 0, padding, padding, padding, padding)) if padding else x
        windows = padded.unfold(2, rows, stride).unfold(3, columns, stride)
        # A patch and a kernel are both in the order (row, column, input).
        patches = windows.permute(0, 1, 2, 3, 5, 6, 4).reshape(clients, -1, rows * columns * inputs)
        kernels = weight.permute(0, 1, 3, 4, 2).reshape(clients, outputs, -1)
        ctx.save_for_backward(patches, kernels)
        ctx.padded, ctx.windows, ctx.kernel = padded.shape, windows.shape[1:4], weight.shape[1:]
        ctx.stride, ctx.padding = stride, padding
        if bias is None:
            scores = torch.bmm(patches, kernels.mT)
        else:
            scores = torch.baddbmm(bias.unsqueeze(1), patches, kernels.mT)
        return scores.view(clients, *ctx.windows, outputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        patches, kernels = ctx.saved_tensors
        outputs, inputs, rows, columns = ctx.kernel
        of_scores = gradient.reshape(len(patches), -1, outputs)
        of_weight = torch.bmm(of_scores.mT, patches).view(-1, outputs, rows, columns, inputs).permute(0, 1, 4, 2, 3)
        of_bias = of_scores.sum(1) if ctx.needs_input_grad[2] else None
        if not ctx.needs_input_grad[0]:
            return None, of_weight, of_bias, None, None
        of_patches = torch.bmm(of_scores, kernels).view(-1, *ctx.windows, rows, columns, inputs)
        of_x = gradient.new_zeros(ctx.padded)
        _, height, width = ctx.windows
        for row in range(rows):
            for column in range(columns):
                down = slice(row, row + ctx.stride * (height - 1) + 1, ctx.stride)
                across = slice(column, column + ctx.stride * (width - 1) + 1, ctx.stride)
                of_x[:, :, down, across] += of_patches[:, :, :, :, row, column]
        if ctx.padding:
            inside = slice(ctx.padding, -ctx.padding)
            of_x = of_x[:, :, inside, inside]
        return of_x, of_weight, of_bias, None, None


class PatchPictures:
    """What a stacked model does to pictures, with the channels last. ``clients`` is the stack's height C."""

    def enter(self, images: torch.Tensor) -> torch.Tensor:
        """[C, batch, height, width] or [C, batch, height, width, channels] to a picture."""
        return images.unsqueeze(-1) if images.ndim == 4 else images

    def convolve(
        self, x: torch.Tensor, layer: nn.Conv2d, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """``layer`` with each client's own ``weight`` [C, outputs, inputs, ...] and ``bias`` [C, outputs]."""
        stride, padding = layer.stride[0], int(layer.padding[0])
        scores: torch.Tensor = _Convolution.apply(x, weight, bias, stride, padding)  # type: ignore[no-untyped-call]
        return scores

    def normalize(self, x: torch.Tensor, layer: nn.GroupNorm, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """``layer`` with each client's own ``weight`` and ``bias``, [C, channels]."""
        groups = x.reshape(*x.shape[:2], -1, layer.num_groups, x.shape[-1] // layer.num_groups)
        variance, mean = torch.var_mean(groups, (2, 4), correction=0, keepdim=True)
        normal = ((groups - mean) * torch.rsqrt(variance + layer.eps)).view(x.shape)
        return torch.addcmul(bias[:, None, None, None], normal, weight[:, None, None, None])

    def pool(self, x: torch.Tensor, layer: nn.MaxPool2d) -> torch.Tensor:
        """``layer`` on every picture."""
        pooled = functional.max_pool2d(
            x.flatten(0, 1).permute(0, 3, 1, 2), layer.kernel_size, layer.stride, layer.padding
        )
        return pooled.permute(0, 2, 3, 1).reshape(*x.shape[:2], *pooled.shape[2:], -1)

    def noise_for(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """``noise``, uint8 [C, batch, height * width * channels], in the shape of ``x``."""
        return noise.reshape(x.shape)

    def average(self, x: torch.Tensor, clients: int) -> torch.Tensor:
        """The mean over height and width: [C, batch, channels]."""
        return x.mean((2, 3))

    def leave(self, x: torch.Tensor, clients: int) -> torch.Tensor:
        """Every picture as a row in torch's order (channels, height, width): [C, batch, features]."""
        return x.permute(0, 1, 4, 2, 3).flatten(2)
