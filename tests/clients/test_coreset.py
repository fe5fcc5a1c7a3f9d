"""Coresets by hand, by their properties, and the gradient that they miss against a plain computation."""

from resource import RUSAGE_SELF, getrusage

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedhpc.clients import coreset as subject
from fedhpc.clients.coreset import Coreset, build_coreset, gradient_error, input_gradients, last_layer
from fedhpc.models.architectures import build_model
from fedhpc.models.settings import EMNISTCNN, MLP, Logistic


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def drawn(examples: int, numbers: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(examples, numbers)).astype(np.float32))


def test_one_medoid_is_the_nearest_to_all() -> None:
    # Sums of distances from 0, 1, 2, 3 and 10: 16, 13, 12, 13 and 34.
    found = build_coreset(torch.tensor([[0.0], [1.0], [2.0], [3.0], [10.0]]), 1, generator())
    assert (found.rows.tolist(), found.weights.tolist()) == ([2], [5.0])


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_found_and_weigh_what_they_hold(seed: int) -> None:
    # Crosses around four far corners: the middle is the medoid, and stands for its 1 + 4 arms (the last for 1 + 2).
    arms = torch.tensor([[0.0, 0.0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    corners = torch.tensor([[0.0, 0.0], [100, 0], [0, 100], [100, 100]])
    points = torch.cat([arms + corner for corner in corners])[:18]
    found = build_coreset(points, 4, generator(seed))
    assert found.rows.tolist() == [0, 5, 10, 15]
    assert found.weights.tolist() == [5, 5, 5, 3]


@given(examples=st.integers(2, 60), data=st.data(), seed=st.integers(0, 99), alike=st.booleans())
@settings(deadline=None)
def test_weights_count_the_nearest_and_add_up(examples: int, data: st.DataObject, seed: int, alike: bool) -> None:
    size = data.draw(st.integers(1, examples))
    points = drawn(examples, 3, seed)
    if alike:
        points = points.sign()  # many examples are the same
    found = build_coreset(points, size, generator(seed))
    assert len(found.rows) == len(set(found.rows.tolist())) == size
    assert (np.diff(found.rows) > 0).all()
    assert found.weights.sum() == examples
    assert found.weights.min() >= 1
    again = build_coreset(points, size, generator(seed))
    assert again.rows.tobytes() == found.rows.tobytes()
    if not alike:
        distances = np.linalg.norm(points.numpy()[:, None] - points.numpy()[None, found.rows], axis=2)
        assert found.weights.tolist() == np.bincount(distances.argmin(1), minlength=size).tolist()


def test_no_single_swap_is_much_better() -> None:
    points = drawn(60, 4)
    found = build_coreset(points, 6, generator())
    distances = np.linalg.norm(points.numpy()[:, None] - points.numpy()[None], axis=2)

    def cost(rows: list[int]) -> float:
        return float(distances[:, rows].min(1).sum())

    rows = found.rows.tolist()
    swapped = [cost([*rows[:place], other, *rows[place + 1 :]]) for place in range(6) for other in range(60)]
    assert cost(rows) <= 1.02 * min(swapped)
    chance = np.random.default_rng(1)
    assert cost(rows) < min(cost(chance.choice(60, 6, replace=False).tolist()) for _ in range(200))


def test_many_examples_are_dealt_into_blocks_and_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_AT_ONCE", 40)
    sizes: list[int] = []
    alone = subject._medoids

    def watched(features: torch.Tensor, count: int, seed: int) -> np.ndarray:
        sizes.append(len(features))
        return alone(features, count, seed)

    monkeypatch.setattr(subject, "_medoids", watched)
    points = drawn(130, 2)
    found = build_coreset(points, 17, generator())
    assert sorted(sizes) == [32, 32, 33, 33]
    assert (len(set(found.rows.tolist())), found.weights.sum()) == (17, 130)
    distances = np.linalg.norm(points.numpy()[:, None] - points.numpy()[None, found.rows], axis=2)
    assert found.weights.tolist() == np.bincount(distances.argmin(1), minlength=17).tolist()
    # Nearer than what chance would choose; and there may be fewer medoids than blocks.
    chance = np.random.default_rng(1)
    any_ones = [points.numpy()[chance.choice(130, 17, replace=False)] for _ in range(100)]
    by_chance = [np.linalg.norm(points.numpy()[:, None] - ones[None], axis=2).min(1).sum() for ones in any_ones]
    assert distances.min(1).sum() < 0.95 * np.mean(by_chance)
    few = build_coreset(points, 2, generator())
    assert (len(few.rows), few.weights.sum()) == (2, 130)


def test_twenty_thousand_examples_take_the_memory_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    # All distances at once would take 1.6 GB; those of a block are 4 MiB here.
    monkeypatch.setattr(subject, "MOST_AT_ONCE", 1024)
    before = getrusage(RUSAGE_SELF).ru_maxrss
    found = build_coreset(drawn(20_000, 8), 200, generator())
    assert found.weights.sum() == 20_000
    assert 1024 * (getrusage(RUSAGE_SELF).ru_maxrss - before) < 200e6


def test_a_model_that_has_diverged_still_gives_a_coreset() -> None:
    for value in (float("nan"), float("inf"), 3e38):
        points = drawn(30, 4)
        points[3, 1] = value
        assert build_coreset(points, 5, generator()).weights.sum() == 30


def test_all_examples_are_their_own_coreset() -> None:
    for size in (7, 8):
        found = build_coreset(drawn(7, 2), size, generator())
        assert (found.rows.tolist(), found.weights.tolist()) == (list(range(7)), [1.0] * 7)


def test_the_gradient_at_the_last_layers_input_is_autograds() -> None:
    module = build_model(MLP(name="mlp", hidden=[5]), (4,), 3)
    features, labels = drawn(9, 4), torch.arange(9) % 3
    inner = module[:3](features).detach().requires_grad_()
    nn.functional.cross_entropy(module[3](inner), labels, reduction="sum").backward()
    found = input_gradients(module(features).detach(), labels, last_layer(module).weight.detach())
    torch.testing.assert_close(found, inner.grad)


def test_the_last_layer_is_the_last_linear_one() -> None:
    module = build_model(EMNISTCNN(name="emnist_cnn"), (8, 8), 3)
    assert last_layer(module) is list(module)[-1]
    with pytest.raises(ValueError, match="last layer is fully connected"):
        last_layer(nn.Sequential(nn.Flatten()))


def plain_error(module: nn.Module, features: torch.Tensor, labels: torch.Tensor, coreset: Coreset) -> float:
    """Equation 2, example by example in double precision."""
    module = module.double().eval()

    def gradient(row: int) -> torch.Tensor:
        module.zero_grad()
        nn.functional.cross_entropy(module(features[row : row + 1].double()), labels[row : row + 1]).backward()
        return torch.cat([parameter.grad.flatten() for parameter in module.parameters()])  # type: ignore[union-attr]

    whole = sum(gradient(row) for row in range(len(labels)))
    part = sum(
        weight * gradient(row) for row, weight in zip(coreset.rows.tolist(), coreset.weights.tolist(), strict=True)
    )
    return float((whole - part).norm())


@pytest.mark.parametrize(
    "model", [Logistic(name="logistic"), MLP(name="mlp", hidden=[5]), EMNISTCNN(name="emnist_cnn")]
)
def test_the_gradient_error_is_equation_2(model: Logistic | MLP | EMNISTCNN) -> None:
    torch.manual_seed(0)
    shape = (8, 8)
    module = build_model(model, shape, 3)
    features, labels = drawn(40, 64).view(40, *shape), torch.arange(40) % 3
    found = build_coreset(features.flatten(1), 7, generator())
    error = gradient_error(module, features, labels, found)
    assert module.training
    assert error == pytest.approx(plain_error(module, features, labels, found), rel=1e-4)
    assert error > 0.1


def test_the_gradient_error_shrinks_with_the_budget_to_0() -> None:
    torch.manual_seed(0)
    module = build_model(MLP(name="mlp", hidden=[8]), (6,), 4)
    features, labels = drawn(200, 6), torch.arange(200) % 4
    gradients = input_gradients(module(features).detach(), labels, last_layer(module).weight.detach())
    errors = [
        np.mean(
            [
                gradient_error(module, features, labels, build_coreset(gradients, size, generator(seed)))
                for seed in range(5)
            ]
        )
        for size in (4, 20, 100, 200)
    ]
    assert errors[0] > 1.5 * errors[1] > 1.5 * 1.5 * errors[2] > 0
    assert errors[3] == 0
