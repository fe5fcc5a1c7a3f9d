import torch
from torch import nn

from fedhpc.models.flat import bind, flatten, views


def test_parameters_lie_one_after_the_other_in_the_order_of_their_memory():
    module = nn.Sequential(nn.Conv2d(2, 1, (1, 2)), nn.Linear(2, 1))
    module[0].weight.data = torch.tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]])
    module[0].bias.data = torch.tensor([5.0])
    module[1].weight.data = torch.tensor([[6.0, 7.0]])
    module[1].bias.data = torch.tensor([8.0])
    assert flatten(module).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    # With the channels last: (column 0: channels 0 and 1), (column 1: channels 0 and 1).
    module[0].weight.data = module[0].weight.data.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert flatten(module).tolist() == [1, 3, 2, 4, 5, 6, 7, 8]


def test_views_have_each_parameters_shape_and_order():
    module = nn.Sequential(nn.Conv2d(2, 1, (1, 2), bias=False), nn.Linear(2, 1, bias=False))
    module[0].weight.data = module[0].weight.data.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    vector = torch.arange(12.0)[6:]
    convolution, linear = views(module, vector)
    assert convolution.tolist() == [[[[6.0, 8.0]], [[7.0, 9.0]]]]
    assert linear.tolist() == [[10.0, 11.0]]
    convolution.zero_()
    assert vector.tolist() == [0, 0, 0, 0, 10, 11]


def test_a_bound_module_computes_with_the_vector_and_flattens_to_it():
    module = nn.Sequential(nn.Conv2d(1, 3, 2), nn.GroupNorm(1, 3), nn.Conv2d(3, 2, 1))
    weights, copy = flatten(module), flatten(module)
    x = torch.randn(2, 1, 4, 4)
    before = module(x)
    bind(module, weights)
    assert torch.equal(module(x), before)
    weights.mul_(2)
    assert torch.equal(flatten(module), 2 * copy)
    assert not torch.equal(module(x), before)
    assert torch.equal(copy * 2, weights)  # a flattened copy stays
