"""Server updates by hand on a two-parameter model."""

import numpy as np
import pytest
import torch

from fedhpc.federation.aggregation import Aggregator
from fedhpc.optimizers import SGD, Adagrad, Adam, AdamW, Optimizer, Yogi
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


def test_adagrads_first_two_steps() -> None:
    # Reddi et al. 2021, Algorithm 2, FedAdagrad; tau = 0.25, v starts from tau^2 = 1/16.
    # Step 1 along [3/4, -1]: v = 1/16 + [9/16, 1] = [10/16, 17/16];
    #   w = [1, 2] - 0.1 * [0.75, -1] / (sqrt(v) + 0.25): sqrt(v) = [0.7905694, 1.0307764];
    #   0.1 * [0.75/1.0405694, -1/1.2807764] = [0.07207592, -0.07807764]; w = [0.92792408, 2.07807764].
    # Step 2 along [1/2, 0]: v = [10/16 + 4/16, 17/16] = [14/16, 17/16], sqrt(v[0]) = 0.9354143;
    #   0.1 * 0.5/1.1854143 = 0.04217934; w = [0.88574474, 2.07807764].
    server = Aggregator(Adagrad(name="adagrad", rate=0.1, epsilon=0.25), START)
    assert server.step(np.array([0.75, -1.0], np.float32)) == pytest.approx([0.92792408, 2.07807764], rel=1e-6)
    assert server.step(np.array([0.5, 0.0], np.float32)) == pytest.approx([0.88574474, 2.07807764], rel=1e-6)


def test_yogis_first_two_steps() -> None:
    # Reddi et al. 2021, Algorithm 2, FedYogi; beta1 = 1/2, beta2 = 3/4, tau = 1/2, v starts from tau^2 = 1/4.
    # Step 1 along [1, -1/4]: m = [1/2, -1/8]; squares [1, 1/16]; signs of v - square: [-1, +1];
    #   v = [1/4 + 1/4 * 1, 1/4 - 1/4 * 1/16] = [1/2, 15/64]; sqrt(v) = [0.70710678, 0.48412292];
    #   0.1 * [0.5/1.20710678, -0.125/0.98412292] = [0.04142136, -0.01270167]; w = [0.95857864, 2.01270167].
    # Step 2 along [1/2, 1]: m = [1/4 + 1/4, -1/16 + 1/2] = [1/2, 7/16]; squares [1/4, 1]; signs [+1, -1];
    #   v = [1/2 - 1/16, 15/64 + 1/4] = [7/16, 31/64]; sqrt(v) = [0.66143783, 0.69597054];
    #   0.1 * [0.5/1.16143783, 0.4375/1.19597054] = [0.04305009, 0.03658117]; w = [0.91552855, 1.97612050].
    server = Aggregator(Yogi(name="yogi", rate=0.1, betas=(0.5, 0.75), epsilon=0.5), START)
    assert server.step(np.array([1.0, -0.25], np.float32)) == pytest.approx([0.95857864, 2.01270167], rel=1e-6)
    assert server.step(np.array([0.5, 1.0], np.float32)) == pytest.approx([0.91552855, 1.97612050], rel=1e-6)


def test_the_first_accumulator_may_be_given() -> None:
    # v = 9 before the step: along [4, 0], adagrad's is 25, and the step 0.1 * 4 / (5 + 1).
    server = Aggregator(Adagrad(name="adagrad", rate=0.1, epsilon=1.0, initial_accumulator=9.0), START)
    assert server.step(np.array([4.0, 0.0], np.float32)) == pytest.approx([1 - 0.4 / 6, 2.0], rel=1e-6)
    # Yogi with betas of 0: m = g, and v = 9 + 16 again, since 9 < 16.
    server = Aggregator(Yogi(name="yogi", rate=0.1, betas=(0.0, 0.0), epsilon=1.0, initial_accumulator=9.0), START)
    assert server.step(np.array([4.0, 0.0], np.float32)) == pytest.approx([1 - 0.4 / 6, 2.0], rel=1e-6)


@pytest.mark.parametrize("settings", [Adagrad(name="adagrad", rate=0.1), Yogi(name="yogi", rate=0.1)])
def test_a_reset_optimizer_is_a_new_one(settings: Optimizer) -> None:
    weights, fresh = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])
    used = TorchOptimizer(settings, [weights])
    used.step([torch.tensor([0.5, -3.0])])
    used.reset()
    weights.copy_(fresh)
    used.step([torch.tensor([-0.25, 1.0])])
    TorchOptimizer(settings, [fresh]).step([torch.tensor([-0.25, 1.0])])
    assert torch.equal(weights, fresh)


@pytest.mark.parametrize("settings", [Adagrad(name="adagrad", rate=0.1), Yogi(name="yogi", rate=0.1)])
def test_a_step_of_the_first_clients_leaves_the_others_alone(settings: Optimizer) -> None:
    stacked = torch.linspace(-1, 1, 12).view(3, 4)
    alone = [row.clone() for row in stacked]
    optimizer = TorchOptimizer(settings, [stacked])
    gradients = [torch.sin(torch.arange(12.0)).view(3, 4), torch.cos(torch.arange(8.0)).view(2, 4)]
    optimizer.step([gradients[0]])
    optimizer.step([gradients[1]], 2)
    for number, row in enumerate(alone):
        own = TorchOptimizer(settings, [row])
        for gradient in gradients:
            if number < len(gradient):
                own.step([gradient[number]])
        assert torch.equal(stacked[number], row)


def test_no_update_is_a_step_along_nothing() -> None:
    server = Aggregator(SGD(name="sgd", rate=1.0, momentum=0.5), START)
    server.step(UPDATE)
    # The momentum of the step before goes on: v = 0.5 * [0.5, -0.25].
    assert server.step(np.zeros(2, np.float32)).tolist() == [0.25, 2.375]


def test_a_restored_server_goes_on_bit_by_bit() -> None:
    for settings in (
        SGD(name="sgd", rate=0.3, momentum=0.9),
        Adam(name="adam", rate=0.1),
        Adagrad(name="adagrad", rate=0.1),
        Yogi(name="yogi", rate=0.1),
    ):
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
        (
            Adagrad(name="adagrad", rate=0.1, epsilon=1e-2, initial_accumulator=0.1),
            lambda p: torch.optim.Adagrad(p, lr=0.1, eps=1e-2, initial_accumulator_value=0.1),
        ),
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
