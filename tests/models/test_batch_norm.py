import pytest
import torch
from torch import nn

from fedhpc.models.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d


@pytest.mark.parametrize(
    ("ours", "theirs", "places"),
    [
        (BatchNorm1d, nn.BatchNorm1d, ()),
        (BatchNorm2d, nn.BatchNorm2d, (1, 1)),
        (BatchNorm3d, nn.BatchNorm3d, (1, 1, 1)),
    ],
)
def test_torchs_own_but_for_one_value_of_each_channel(ours, theirs, places):
    layer, other = ours(3), theirs(3)
    x = torch.randn(4, 3, *places)
    for _ in range(2):
        assert torch.equal(layer(x), other(x))
    assert torch.equal(layer.running_var, other.running_var)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        other(x[:1])
    before = layer.running_mean.clone(), layer.running_var.clone()
    torch.testing.assert_close(layer(x[:1]), other.eval()(x[:1]))
    assert torch.equal(layer.running_mean, before[0])
    assert torch.equal(layer.running_var, before[1])
    assert torch.equal(layer.eval()(x), other(x))
