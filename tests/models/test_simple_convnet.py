"""FedBuff's network for CelebA and CIFAR-10, against FedBuff's appendix B.1 and FLSim's ``SimpleConvNet``."""

import pytest
import torch
from torch.nn import functional

from fedhpc.models.architectures import build_model
from fedhpc.models.dropout import give_noise
from fedhpc.models.settings import CIFAR10CNN, CelebACNN

# The first convolution, three more, one shared normalisation; 32 by 32 become 17, 9, 5 and 3 by 3.
SHARED = (27 + 1) * 32 + 3 * (9 * 32 + 1) * 32 + 2 * 32


@pytest.mark.parametrize(
    ("settings", "classes", "expected"),
    [(CIFAR10CNN(name="cifar10_cnn"), 10, 31_594), (CelebACNN(name="celeba_cnn"), 2, 29_282)],
)
def test_parameters_of_32_by_32_pixels_in_colour(settings, classes, expected):
    module = build_model(settings, (32, 32, 3), classes)
    assert sum(parameter.numel() for parameter in module.parameters()) == expected
    assert expected == SHARED + (32 * 3 * 3 + 1) * classes


def test_written_out():
    module = build_model(CIFAR10CNN(name="cifar10_cnn"), (9, 12, 3), 4)
    w1, b1, scale, shift, w2, b2, w3, b3, w4, b4, weight, bias = module.parameters()
    with torch.no_grad():
        scale.uniform_(0.5, 2)
        shift.uniform_(-1, 1)
    images = torch.randn(2, 9, 12, 3)
    x = images.permute(0, 3, 1, 2)
    for kernel, kernel_bias in ((w1, b1), (w2, b2), (w3, b3), (w4, b4)):
        x = functional.conv2d(x, kernel, kernel_bias, padding=2)
        deviation = (x.var((2, 3), correction=0, keepdim=True) + 1e-5).sqrt()
        x = (x - x.mean((2, 3), keepdim=True)) / deviation * scale[:, None, None] + shift[:, None, None]
        x = functional.max_pool2d(x.relu(), 2)
    assert x.shape[1:] == (32, 2, 2)  # 9, 5, 3, 2, 2 and 12, 7, 4, 3, 2
    torch.testing.assert_close(module.eval()(images), x.flatten(1) @ weight.t() + bias, rtol=1e-4, atol=1e-5)
    # In training, a value is dropped where its byte is below 26, and an example's bytes lie with the channels last.
    noise = torch.randint(256, (2, 128), dtype=torch.uint8)
    give_noise(module.train(), noise)
    kept = (noise.view(2, 2, 2, 32) >= 26).permute(0, 3, 1, 2)
    expected = (x * kept / (230 / 256)).flatten(1) @ weight.t() + bias
    torch.testing.assert_close(module(images), expected, rtol=1e-4, atol=1e-5)
