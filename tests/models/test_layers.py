import torch
from torch import nn

from fedhpc.models.layers import LSTM, GlobalAverage, Image, Residual


def test_image_puts_the_channels_first_without_a_copy():
    gray, coloured = torch.randn(2, 4, 5), torch.randn(2, 4, 5, 3)
    assert Image()(gray).shape == (2, 1, 4, 5)
    assert Image()(gray).data_ptr() == gray.data_ptr()
    assert Image()(coloured).shape == (2, 3, 4, 5)
    assert Image()(coloured).data_ptr() == coloured.data_ptr()
    assert Image()(coloured)[1, 2, 3, 4] == coloured[1, 3, 4, 2]


def test_residual_adds_its_shortcut():
    x = torch.tensor([[1.0, -2.0]])
    assert Residual(nn.ReLU(), nn.Sequential())(x).tolist() == [[2.0, -2.0]]


def test_global_average_is_over_height_and_width():
    x = torch.tensor([[[[1.0, 2.0], [3.0, 6.0]], [[0.0, 0.0], [0.0, 4.0]]]])
    assert GlobalAverage()(x).tolist() == [[3.0, 1.0]]


def test_lstm_is_torchs_with_one_bias():
    ours, theirs = LSTM(3, 5), nn.LSTM(3, 5, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.input_weight)
        theirs.weight_hh_l0.copy_(ours.state_weight)
        theirs.bias_ih_l0.copy_(ours.bias)
        theirs.bias_hh_l0.zero_()
    x = torch.randn(2, 7, 3)
    torch.testing.assert_close(ours(x), theirs(x)[0])
