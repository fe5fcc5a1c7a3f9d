import pytest
import torch
from torch import nn

from fedhpc.models.dropout import KeyedDropout, give_noise, noise_bytes
from fedhpc.models.layers import Image


def test_a_byte_below_256_p_drops_its_value_and_the_rest_is_scaled():
    layer = KeyedDropout(0.25)
    give_noise(layer, torch.tensor([[0, 63, 64, 255]], dtype=torch.uint8))
    assert layer(torch.tensor([[3.0, 3.0, 3.0, 6.0]])).tolist() == [[0.0, 0.0, 4.0, 8.0]]


def test_bytes_of_an_activation_lie_with_the_channels_last():
    layer = KeyedDropout(0.5)
    # One example of 2 channels, 1 by 3: the bytes are (w0 c0), (w0 c1), (w1 c0), (w1 c1), (w2 c0), (w2 c1).
    give_noise(layer, torch.tensor([[0, 200, 0, 0, 200, 127]], dtype=torch.uint8))
    assert layer(torch.ones(1, 2, 1, 3)).tolist() == [[[[0.0, 0.0, 2.0]], [[2.0, 0.0, 0.0]]]]


def test_layers_take_their_slices_in_order_and_each_example_has_its_row():
    model = nn.Sequential(KeyedDropout(0.5), nn.Flatten(), KeyedDropout(0.5))
    noise = torch.tensor([[255, 0, 255, 255], [255, 255, 0, 255]], dtype=torch.uint8)
    give_noise(model, noise)
    assert model(torch.ones(2, 2)).tolist() == [[4.0, 0.0], [0.0, 4.0]]


def test_noise_bytes_counts_every_dropped_value_and_leaves_the_model_as_it_was():
    model = nn.Sequential(
        Image(),
        nn.Conv2d(1, 3, 2),
        KeyedDropout(0.25),
        nn.Flatten(),
        KeyedDropout(0.5),
        nn.Linear(60, 7),
        KeyedDropout(0),
    )
    assert noise_bytes(model, (5, 6)) == 3 * 4 * 5 + 3 * 4 * 5 + 7
    assert model.training
    assert noise_bytes(nn.Sequential(nn.Flatten(), nn.Linear(30, 7)), (5, 6)) == 0


def test_evaluation_keeps_every_value_and_needs_no_noise():
    x = torch.randn(2, 3)
    assert torch.equal(KeyedDropout(0.5).eval()(x), x)


@pytest.mark.parametrize("p", [0.3, -0.25, 1.0])
def test_a_share_that_bytes_cannot_give_is_refused(p):
    with pytest.raises(ValueError, match=r"no multiple of 1/256"):
        KeyedDropout(p)


def test_noise_serves_one_forward_pass():
    layer, x = KeyedDropout(0.5), torch.ones(1, 2)
    with pytest.raises(ValueError, match="give_noise"):
        layer(x)
    give_noise(layer, torch.zeros(1, 2, dtype=torch.uint8))
    layer(x)
    with pytest.raises(ValueError, match="give noise of noise_bytes before every forward pass"):
        layer(x)
