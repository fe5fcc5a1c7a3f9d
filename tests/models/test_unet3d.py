"""The 3-D U-Net, against FLamby's of Fed-IXI."""

import torch
from torch.nn import functional

from fedhpc.models.architectures import build_model
from fedhpc.models.settings import UNet3D
from fedhpc.models.unet3d import Pool, Upsample

UNET = UNet3D(name="unet3d")


def normalized(inputs, outputs):
    """A convolution's kernels, its normalisation, its slope."""
    return 27 * inputs * outputs + 2 * outputs + 1


def test_parameters_are_flambys():
    down = (27 * 8 + 8 + 1) + normalized(8, 16) + normalized(16, 16) + normalized(16, 32)
    bottom = normalized(32, 32) + normalized(32, 64)
    up = normalized(64 + 32, 32) + normalized(32, 32) + normalized(32 + 16, 16) + normalized(16, 16)
    module = build_model(UNET, (48, 60, 48), 2)
    found = sum(parameter.numel() for parameter in module.parameters())
    assert found == down + bottom + up + (16 * 2 + 2) == 246_156


def test_written_out():
    module = build_model(UNET, (8, 4, 12), 3)
    volumes = torch.randn(2, 8, 4, 12)
    _, slope, *_ = parameters = list(module.parameters())
    left = iter(parameters)

    def convolve(x, bias=False):
        x = functional.conv3d(x, next(left), next(left) if bias else None, padding=1)
        if not bias:
            mean, variance = x.mean((0, 2, 3, 4)), x.var((0, 2, 3, 4), correction=0)
            scale, shift = next(left), next(left)
            x = torch.stack(
                [(x[:, c] - mean[c]) / (variance[c] + 1e-5).sqrt() * scale[c] + shift[c] for c in range(x.shape[1])], 1
            )
        return functional.prelu(x, next(left))

    def upsample(x):
        return functional.interpolate(x, scale_factor=2, mode="trilinear", align_corners=False)

    top = convolve(convolve(volumes[:, None], bias=True))
    middle = convolve(convolve(functional.max_pool3d(top, 2)))
    bottom = convolve(convolve(functional.max_pool3d(middle, 2)))
    middle = convolve(convolve(torch.cat([middle, upsample(bottom)], 1)))
    top = convolve(convolve(torch.cat([top, upsample(middle)], 1)))
    scores = functional.conv3d(top, next(left), next(left))
    assert next(left, None) is None
    assert slope.numel() == 8  # the second parameter is the first convolution's bias
    torch.testing.assert_close(module(volumes), scores.permute(0, 2, 3, 4, 1), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(module(volumes[..., None]), module(volumes))


def test_pooling_and_upsampling_are_torchs_with_their_gradients():
    torch.manual_seed(0)
    pairs = [
        (Pool(), lambda x: functional.max_pool3d(x, 2)),
        (Upsample(), lambda x: functional.interpolate(x, scale_factor=2, mode="trilinear", align_corners=False)),
    ]
    for ours, theirs in pairs:
        x = torch.randn(2, 3, 4, 2, 6, dtype=torch.float64).round(decimals=1).requires_grad_()
        x.data[0, 0] = 0.0  # a background: of equal values the first takes the gradient
        expected = theirs(x)
        weights = torch.randn_like(expected)
        torch.testing.assert_close(ours(x), expected)
        (gradient,) = torch.autograd.grad((ours(x) * weights).sum(), x)
        torch.testing.assert_close(gradient, torch.autograd.grad((expected * weights).sum(), x)[0])
