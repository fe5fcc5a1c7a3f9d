"""ResNet-34 and ShuffleNet V2, by their papers' tables."""

import torch
from torch.nn import functional

from fedhpc.models.architectures import build_model
from fedhpc.models.layers import Residual
from fedhpc.models.settings import ResNet34, ShuffleNet
from fedhpc.models.shufflenet import ShuffleUnit


def test_resnet34_has_21_797_672_parameters_with_1000_classes():
    module = build_model(ResNet34(name="resnet34"), (224, 224, 3), 1000)
    assert sum(parameter.numel() for parameter in module.parameters()) == 21_797_672
    blocks = [layer for layer in module if isinstance(layer, Residual)]
    assert [block.body[0].out_channels for block in blocks] == [64] * 3 + [128] * 4 + [256] * 6 + [512] * 3
    strides = [block.body[0].stride[0] for block in blocks]
    assert [place for place, stride in enumerate(strides) if stride == 2] == [3, 7, 13]
    # RELAY's Google Speech: spectrograms of one channel, 35 words.
    speech = build_model(ResNet34(name="resnet34"), (32, 32), 35)
    fewer = 49 * 2 * 64 + 513 * (1000 - 35)
    assert sum(parameter.numel() for parameter in speech.parameters()) == 21_797_672 - fewer == 21_296_355


def test_shufflenet_has_1_366_792_parameters_with_1000_classes():
    module = build_model(ShuffleNet(name="shufflenet"), (224, 224, 3), 1000)
    assert sum(parameter.numel() for parameter in module.parameters()) == 1_366_792
    sizes, x = [], torch.zeros(1, 64, 96, 3)
    for layer in module.eval():
        x = layer(x)
        if isinstance(layer, ShuffleUnit):
            sizes.append(tuple(x.shape[1:]))
    # Of a 32th of the picture at its end (Ma et al. 2018, table 5).
    assert sizes == [(48, 8, 12)] * 4 + [(96, 4, 6)] * 8 + [(192, 2, 3)] * 4


def written_out(unit, x):
    """Convolution, normalisation by the batch, and ReLU behind those of one pixel."""

    def pass_through(layers, y):
        for layer in layers:
            if isinstance(layer, torch.nn.Conv2d):
                depthwise = layer.groups > 1
                assert layer.groups in (1, layer.in_channels)
                y = functional.conv2d(y, layer.weight, None, layer.stride, int(depthwise), 1, layer.groups)
            elif isinstance(layer, torch.nn.BatchNorm2d):
                y = functional.batch_norm(y, None, None, layer.weight, layer.bias, True)
            else:
                y = y.relu()
        return y

    half = x.shape[1] // 2
    left, right = (x[:, :half], x[:, half:]) if unit.halves_input else (x, x)
    left, right = pass_through(unit.side, left), pass_through(unit.body, right)
    shuffled = [channel for pair in zip(left.unbind(1), right.unbind(1), strict=True) for channel in pair]
    return torch.stack(shuffled, 1)


def test_a_unit_written_out():
    for unit in (ShuffleUnit(6, 6, 1), ShuffleUnit(6, 8, 2)):
        x = torch.randn(2, 6, 5, 4)
        kinds = [type(layer).__name__ for layer in unit.body]
        assert kinds == ["Conv2d", "BatchNorm2d", "ReLU", "Conv2d", "BatchNorm2d", "Conv2d", "BatchNorm2d", "ReLU"]
        torch.testing.assert_close(unit(x), written_out(unit, x), rtol=1e-4, atol=1e-5)
