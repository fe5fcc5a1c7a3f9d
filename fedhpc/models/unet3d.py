"""The 3-D U-Net (Cicek et al. 2016) of FLamby's Fed-IXI (Ogier du Terrail et al. 2022), which FedCompass trains too:
three levels, batch normalisation but for the very first convolution, one PReLU slope a convolution, 246,156 parameters
with one channel and two classes. FLamby's ends in a softmax over the classes; here it is left to the loss.
"""

import torch
from torch import nn

from fedhpc.models.batch_norm import BatchNorm3d
from fedhpc.models.tables import UNET_FIRST as FIRST


class Volume(nn.Module):
    """Volumes as they lie in the data, as convolutions take them: float32 [batch, depth, height, width] or, with the
    channels last, [batch, depth, height, width, channels], to [batch, channels, depth, height, width]."""

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        return volumes.unsqueeze(1) if volumes.ndim == 4 else volumes.movedim(-1, 1)


class Pool(nn.Module):
    """The largest of each cube of 2 by 2 by 2 values: [batch, channels, depth, height, width], of even sides, to half
    of each. Of equal ones the first takes the gradient, as in torch's own, which on a GPU has no deterministic one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, *sides = x.shape
        depth, height, width = (side // 2 for side in sides)
        cubes = x.reshape(batch, channels, depth, 2, height, 2, width, 2).permute(0, 1, 2, 4, 6, 3, 5, 7)
        return cubes.flatten(5).max(5).values


class Upsample(nn.Module):
    """Twice as many values along each of the last three axes, by straight lines between the middles of the given ones
    (trilinear, corners not aligned). Axis after axis, since torch's own has no deterministic gradient on a GPU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for axis in (2, 3, 4):
            last = x.shape[axis] - 1
            before = torch.cat([x.narrow(axis, 0, 1), x.narrow(axis, 0, last)], axis)
            after = torch.cat([x.narrow(axis, 1, last), x.narrow(axis, last, 1)], axis)
            pairs = torch.stack([torch.lerp(before, x, 0.75), torch.lerp(after, x, 0.75)], axis + 1)
            x = pairs.flatten(axis, axis + 1)
        return x


class UNet(nn.Module):
    """A level of the U: ``down``, then what lies below at half the size, then ``up`` on both side by side."""

    def __init__(self, down: nn.Module, below: nn.Module, up: nn.Module) -> None:
        super().__init__()
        self.down, self.below, self.up = down, nn.Sequential(Pool(), below, Upsample()), up

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        joined: torch.Tensor = self.up(torch.cat([x, self.below(x)], 1))
        return joined


class ClassesLast(nn.Module):
    """[batch, classes, *places] to [batch, *places, classes]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.movedim(1, -1)


def unet3d(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Takes float32 [batch, *shape], volumes whose sides are multiples of 4; returns each voxel's logits, [batch,
    depth, height, width, classes]."""
    channels = (*shape, 1)[3]
    first = nn.Sequential(nn.Conv3d(channels, FIRST, 3, padding=1), nn.PReLU(), *_convolution(FIRST, 2 * FIRST))
    second = nn.Sequential(*_convolution(2 * FIRST, 2 * FIRST), *_convolution(2 * FIRST, 4 * FIRST))
    bottom = nn.Sequential(*_convolution(4 * FIRST, 4 * FIRST), *_convolution(4 * FIRST, 8 * FIRST))
    inner = UNet(second, bottom, _joined(4 * FIRST))
    return nn.Sequential(
        Volume(), UNet(first, inner, _joined(2 * FIRST)), nn.Conv3d(2 * FIRST, classes, 1), ClassesLast()
    )


def _joined(width: int) -> nn.Sequential:
    """From the level's own channels and twice as many from below."""
    return nn.Sequential(*_convolution(3 * width, width), *_convolution(width, width))


def _convolution(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv3d(inputs, outputs, 3, padding=1, bias=False), BatchNorm3d(outputs), nn.PReLU()]
