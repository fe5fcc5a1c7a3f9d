import torch
from torch import nn

from fedhpc.models.architectures import build_model
from fedhpc.models.flat import bind, count_statistics, flatten, views
from fedhpc.models.settings import (
    EMNISTCNN,
    MLP,
    CIFAR10ResNet18,
    CIFAR100ResNet18,
    ShakespeareLSTM,
    keeps_running_statistics,
)


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


def test_running_statistics_are_the_last_entries():
    module = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1, bias=False), nn.BatchNorm1d(1))
    first, linear, last = module
    first.weight.data, first.bias.data = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    linear.weight.data = torch.tensor([[5.0, 6.0]])
    last.weight.data, last.bias.data = torch.tensor([7.0]), torch.tensor([8.0])
    first.running_mean.copy_(torch.tensor([9.0, 10.0]))
    first.running_var.copy_(torch.tensor([11.0, 12.0]))
    last.running_mean.fill_(13)
    last.running_var.fill_(14)
    assert flatten(module).tolist() == list(range(1, 15))
    assert count_statistics(module) == 6
    assert [view.tolist() for view in views(module, torch.arange(14.0))][-2:] == [[12.0], [13.0]]


def test_a_bound_module_gathers_its_statistics_in_the_vector():
    module = nn.Sequential(nn.BatchNorm1d(2))
    vector = torch.tensor([1.0, 1.0, 0.0, 0.0, 10.0, 20.0, 1.0, 1.0])
    bind(module, vector)
    x = torch.tensor([[0.0, 0.0], [2.0, 4.0]])
    # In evaluation by the running mean and variance: (2 - 10) / sqrt(1 + 1e-5).
    torch.testing.assert_close(module.eval()(x)[1], torch.tensor([-8.0, -16.0]), rtol=1e-4, atol=0)
    module.train()(x)
    # 0.9 * old + 0.1 * new: means 1 and 2, variances (of one degree of freedom) 2 and 8.
    torch.testing.assert_close(vector[4:], torch.tensor([9.1, 18.2, 1.1, 1.7]))
    assert vector[:4].tolist() == [1, 1, 0, 0]


def test_the_settings_say_which_models_keep_statistics():
    cases = [
        (MLP(name="mlp"), (6,)),
        (EMNISTCNN(name="emnist_cnn"), (28, 28)),
        (CIFAR100ResNet18(name="cifar100_resnet18"), (32, 32, 3)),
        (CIFAR10ResNet18(name="cifar10_resnet18"), (32, 32, 3)),
        (ShakespeareLSTM(name="shakespeare_lstm"), (80,)),
    ]
    counts = {settings.name: count_statistics(build_model(settings, shape, 10)) for settings, shape in cases}
    assert [settings.name for settings, _ in cases if keeps_running_statistics(settings)] == ["cifar10_resnet18"]
    # A mean and a variance of each channel: 64 in the first five normalisations, then five of each width.
    assert counts.pop("cifar10_resnet18") == 2 * 5 * (64 + 128 + 256 + 512)
    assert set(counts.values()) == {0}
