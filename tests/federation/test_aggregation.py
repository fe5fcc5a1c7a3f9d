"""Server updates by hand on a two-parameter model."""

import numpy as np
import pytest
import torch

from fedhpc.federation.aggregation import Aggregator
from fedhpc.optimizers import SGD, Adam, AdamW, Optimizer
from fedhpc.torch_optimizers import TorchOptimizer

START = np.array([1.0, 2.0], np.float32)
UPDATE = np.array([0.5, -0.25], np.float32)


def test_sgd_subtracts_the_update() -> None:
    # w <- w - 2 * [0.5, -0.25]
    server = Aggregator(SGD(name="sgd", rate=2.0), START)
    assert server.step(UPDATE).tolist() == [0.0, 2.5]


def test_server_momentum_accumulates() -> None:
    # v1 = [0.5, -0.25]; v2 = 0.5 v1 + [0.5, -0.25] = [0.75, -0.375]; w = [1, 2] - v1 - v2 (FedAvgM).
    server = Aggregator(SGD(name="sgd", rate=1.0, momentum=0.5), START)
    assert server.step(UPDATE).tolist() == [0.5, 2.25]
    assert server.step(UPDATE).tolist() == [-0.25, 2.625]


def test_adams_first_step_is_the_rate_in_each_direction() -> None:
    # m / (1 - b1) = g and sqrt(v / (1 - b2)) = |g|: the step is rate * g / (|g| + eps).
    server = Aggregator(Adam(name="adam", rate=0.1, epsilon=1e-12), START)
    assert server.step(UPDATE) == pytest.approx([0.9, 2.1], rel=1e-6)


def test_no_update_is_a_step_along_nothing() -> None:
    server = Aggregator(SGD(name="sgd", rate=1.0, momentum=0.5), START)
    server.step(UPDATE)
    # The momentum of the step before goes on: v = 0.5 * [0.5, -0.25].
    assert server.step(np.zeros(2, np.float32)).tolist() == [0.25, 2.375]


def test_a_restored_server_goes_on_bit_by_bit() -> None:
    for settings in (SGD(name="sgd", rate=0.3, momentum=0.9), Adam(name="adam", rate=0.1)):
        server, other = Aggregator(settings, START), Aggregator(settings, START)
        server.step(UPDATE)
        other.restore(server.state())
        assert server.step(UPDATE).tobytes() == other.step(UPDATE).tobytes()


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        (SGD(name="sgd", rate=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
        (
            SGD(name="sgd", rate=0.1, momentum=0.9, weight_decay=0.01),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        ),
        (
            Adam(name="adam", rate=0.1, betas=(0.8, 0.9), epsilon=1e-3, weight_decay=0.01),
            lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.01),
        ),
        (AdamW(name="adamw", rate=0.1), lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01)),
    ],
)
def test_the_same_bits_as_torchs_optimizers(settings: Optimizer, reference: type[torch.optim.Optimizer]) -> None:
    ours, gradient = torch.linspace(-1, 1, 17), torch.zeros(17)
    optimizer = TorchOptimizer(settings, [ours])
    theirs = torch.nn.Parameter(ours.clone())
    theirs.grad = torch.zeros(17)
    torchs = reference([theirs])  # type: ignore[arg-type]
    for step in range(5):
        gradient.copy_(torch.sin(ours * (step + 1)))
        theirs.grad.copy_(gradient)
        optimizer.step([gradient])
        torchs.step()
        assert torch.equal(ours, theirs.detach())
