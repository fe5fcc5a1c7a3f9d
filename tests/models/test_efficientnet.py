"""EfficientNet-B0, by the paper's table 1 and the names of lukemelas/EfficientNet-PyTorch's published weights."""

import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedhpc.mistakes import ExperimentError
from fedhpc.models.architectures import build_model
from fedhpc.models.channels_last import channels_last
from fedhpc.models.dropout import give_noise, noise_bytes
from fedhpc.models.efficientnet import DroppedBlock
from fedhpc.models.settings import EfficientNet

# Kernel, stride, expansion, input and output channels of each block.
BLOCKS = [
    (3, 1, 1, 32, 16),
    (3, 2, 6, 16, 24),
    (3, 1, 6, 24, 24),
    (5, 2, 6, 24, 40),
    (5, 1, 6, 40, 40),
    (3, 2, 6, 40, 80),
    *[(3, 1, 6, 80, 80)] * 2,
    (5, 1, 6, 80, 112),
    *[(5, 1, 6, 112, 112)] * 2,
    (5, 2, 6, 112, 192),
    *[(5, 1, 6, 192, 192)] * 3,
    (3, 1, 6, 192, 320),
]


def built(shape=(40, 33, 3), classes=5, **settings):
    return build_model(EfficientNet(name="efficientnet_b0", **settings), shape, classes)


def published(classes, seed=0):
    """Tensors by the published names, in their shapes, with numbers of their own."""
    draw = torch.Generator().manual_seed(seed)
    state = {}

    def convolution(name, *shape):
        state[f"{name}.weight"] = torch.randn(shape, generator=draw) * (2 / torch.Size(shape[1:]).numel()) ** 0.5

    def norm(name, channels):
        state[f"{name}.weight"] = torch.rand(channels, generator=draw) + 0.5
        state[f"{name}.bias"] = torch.randn(channels, generator=draw) * 0.1
        state[f"{name}.running_mean"] = torch.randn(channels, generator=draw) * 0.1
        state[f"{name}.running_var"] = torch.rand(channels, generator=draw) + 0.5
        state[f"{name}.num_batches_tracked"] = torch.tensor(7)

    convolution("_conv_stem", 32, 3, 3, 3)
    norm("_bn0", 32)
    for number, (kernel, _, expansion, inputs, outputs) in enumerate(BLOCKS):
        own, wide = f"_blocks.{number}.", expansion * inputs
        if expansion > 1:
            convolution(f"{own}_expand_conv", wide, inputs, 1, 1)
            norm(f"{own}_bn0", wide)
        convolution(f"{own}_depthwise_conv", wide, 1, kernel, kernel)
        norm(f"{own}_bn1", wide)
        for name, outer, inner in (("_se_reduce", inputs // 4, wide), ("_se_expand", wide, inputs // 4)):
            convolution(own + name, outer, inner, 1, 1)
            state[f"{own}{name}.bias"] = torch.randn(outer, generator=draw) * 0.1
        convolution(f"{own}_project_conv", outputs, wide, 1, 1)
        norm(f"{own}_bn2", outputs)
    convolution("_conv_head", 1280, 320, 1, 1)
    norm("_bn1", 1280)
    convolution("_fc", classes, 1280)
    state["_fc.bias"] = torch.randn(classes, generator=draw)
    return state


def scores(state, images):
    """The published network in evaluation, written out."""
    x = images.permute(0, 3, 1, 2)

    def convolve(name, x, stride=1, groups=1):
        weight = state[f"{name}.weight"]
        kernel = weight.shape[-1]
        padding = []
        for side in (x.shape[3], x.shape[2]):
            missing = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            padding += [missing // 2, missing - missing // 2]
        return functional.conv2d(functional.pad(x, padding), weight, state.get(f"{name}.bias"), stride, groups=groups)

    def norm(name, x):
        values = [state[f"{name}.{key}"] for key in ("running_mean", "running_var", "weight", "bias")]
        return functional.batch_norm(x, *values, eps=1e-3)

    x = functional.silu(norm("_bn0", convolve("_conv_stem", x, 2)))
    for number, (_, stride, expansion, inputs, outputs) in enumerate(BLOCKS):
        own, given = f"_blocks.{number}.", x
        if expansion > 1:
            x = functional.silu(norm(f"{own}_bn0", convolve(f"{own}_expand_conv", x)))
        x = functional.silu(norm(f"{own}_bn1", convolve(f"{own}_depthwise_conv", x, stride, x.shape[1])))
        squeezed = convolve(f"{own}_se_reduce", functional.adaptive_avg_pool2d(x, 1))
        x = convolve(f"{own}_se_expand", functional.silu(squeezed)).sigmoid() * x
        x = norm(f"{own}_bn2", convolve(f"{own}_project_conv", x))
        if stride == 1 and inputs == outputs:
            x = x + given
    x = functional.silu(norm("_bn1", convolve("_conv_head", x))).mean((2, 3))
    return x @ state["_fc.weight"].t() + state["_fc.bias"]


def test_parameters_with_1000_classes():
    assert sum(parameter.numel() for parameter in built(classes=1000).parameters()) == 5_288_548


def test_published_weights_give_the_published_networks_scores(tmp_path):
    torch.save(state := published(5), tmp_path / "b0.pth")
    module = built(weights=tmp_path / "b0.pth").eval()
    images = torch.randn(2, 40, 33, 3)
    torch.testing.assert_close(module(images), scores(state, images), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(channels_last(module)(images), module(images), rtol=1e-3, atol=1e-3)


def test_of_other_classes_the_last_layer_is_left_out(tmp_path):
    torch.save(state := published(9), tmp_path / "b0.pth")
    torch.manual_seed(1)
    fresh = built()
    torch.manual_seed(1)
    module = built(weights=tmp_path / "b0.pth")
    assert torch.equal(module[-1].weight, fresh[-1].weight)
    assert torch.equal(module[1 + 1].weight, state["_conv_stem.weight"])  # behind the picture and its padding


class Evil:
    def __reduce__(self):
        return (print, ("it ran",))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"_bn0.bias": None}, "the file has no tensor _bn0.bias"),
        ({"_bn0.bias": torch.zeros(3)}, "_bn0.bias has the shape [3] and should have [32]"),
        ({"_bn1.running_var": torch.full((1280,), torch.nan)}, "_bn1.running_var holds what is no finite number"),
    ],
)
def test_weights_that_do_not_fit_are_one_line(tmp_path, changed, told):
    torch.save(published(5) | changed, tmp_path / "b0.pth")
    with pytest.raises(ExperimentError) as caught:
        built(weights=tmp_path / "b0.pth")
    (sentence,) = caught.value.mistakes
    assert sentence.startswith(f"task.model.weights: {told}")


def test_a_file_of_no_tensors_is_one_line_and_runs_nothing(tmp_path, capsys):
    whole = tmp_path / "whole.pth"
    torch.save(published(5), whole)
    contents = {
        "cut": whole.read_bytes()[:1000],
        "text": b"no weights",
        "empty": b"",
        "evil": pickle.dumps(Evil(), protocol=2),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ExperimentError, match="no whole file of tensors by name"):
            built(weights=tmp_path / name)
    torch.save([torch.zeros(2)], tmp_path / "list")
    with pytest.raises(ExperimentError, match="holds no tensors by name"):
        built(weights=tmp_path / "list")
    with pytest.raises(ExperimentError, match="cannot be read: No such file"):
        built(weights=tmp_path / "missing")
    assert "it ran" not in capsys.readouterr().out


def test_blocks_are_dropped_example_by_example_and_ever_more_often():
    module = built()
    dropped = [layer for layer in module.modules() if isinstance(layer, DroppedBlock)]
    numbers = [
        number for number, (_, stride, _, inputs, outputs) in enumerate(BLOCKS) if stride == 1 and inputs == outputs
    ]
    assert [layer.kept.threshold for layer in dropped] == [round(256 * 0.2 * number / 16) for number in numbers]
    # A byte for each such block, and one for each of the 1280 values behind the last.
    assert noise_bytes(module, (40, 33, 3)) == len(dropped) + 1280
    layer = nn.Sequential(DroppedBlock(0.25))
    give_noise(layer, torch.tensor([[63], [64]], dtype=torch.uint8))
    assert layer(torch.full((2, 1, 1, 2), 3.0)).flatten().tolist() == [0, 0, 4, 4]
