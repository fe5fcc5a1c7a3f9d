"""Local training once more, written plainly: torch.nn, torch.optim and autograd in double precision, one client.

Nothing of fedhpc computes here. What is random is drawn as the streams' documentation has it: Philox by (trial key of
the purpose; counter 0, 0, participation, client); a fresh permutation a pass; whole 64-bit words of bytes a step.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedhpc.clients.settings import ClientSettings
from fedhpc.data.federated import FederatedData
from fedhpc.models.settings import EMNISTCNN, MLP, MNISTCNN, CIFAR100ResNet18, Logistic, Model
from fedhpc.optimizers import SGD, Adagrad, AdamW, Yogi

BATCHES, DROPOUT = 4, 6
GPU_STEPS_AT_ONCE = 8


def stream(seed: int, trial: int, purpose: int, client: int, participation: int) -> np.random.Generator:
    key = np.random.SeedSequence(seed, spawn_key=(trial, purpose)).generate_state(2, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, participation, client]))


def batch_rows(order: np.random.Generator, examples: int, size: int) -> Iterator[np.ndarray]:
    """The client's own row numbers, batch after batch."""
    while True:
        permutation = order.permutation(examples)
        yield from (permutation[first : first + size] for first in range(0, examples, size))


def step_bytes(generator: np.random.Generator, total: int, device: str) -> Iterator[np.ndarray]:
    """A step's bytes after another's, ``total`` each."""
    if device == "cpu":
        while True:
            yield generator.integers(0, 2**64, -(-total // 8), np.uint64).view(np.uint8)[:total]
    drawing = torch.Generator(device)
    drawing.manual_seed(int(generator.integers(2**63)))
    shape = (GPU_STEPS_AT_ONCE, total)
    while True:
        yield from torch.randint(0, 256, shape, dtype=torch.uint8, device=device, generator=drawing).cpu().numpy()


class Plain(nn.Module):
    """A network that is called with images and, an example a row, dropout's bytes; without them nothing is dropped."""

    bytes_an_example = 0

    def forward(self, x: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        raise NotImplementedError


class Dense(Plain):
    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))

    def forward(self, x: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = functional.relu(layer(x))
        return self.layers[-1](x)


def channels_first(x: torch.Tensor) -> torch.Tensor:
    return x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)


def dropped(x: torch.Tensor, noise: torch.Tensor | None, own: slice, share: float) -> torch.Tensor:
    """Dropout by an example's ``own`` bytes; pictures take theirs with the channels last."""
    if noise is None:
        return x
    noise = noise[:, own]
    if x.ndim == 4:
        count, channels, height, width = x.shape
        noise = noise.view(count, height, width, channels).permute(0, 3, 1, 2)
    return torch.where(noise < 256 * share, torch.zeros_like(x), x / (1 - share))


class EMNIST(Plain):
    """Reddi et al. 2021, table 8."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, 32, 3), nn.Conv2d(32, 64, 3)
        self.pooled = 64 * ((height - 4) // 2) * ((width - 4) // 2)
        self.third, self.fourth = nn.Linear(self.pooled, 128), nn.Linear(128, classes)
        self.bytes_an_example = self.pooled + 128

    def forward(self, x: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        x = functional.relu(self.second(functional.relu(self.first(channels_first(x)))))
        x = dropped(functional.max_pool2d(x, 2), noise, slice(self.pooled), 0.25)
        x = dropped(functional.relu(self.third(x.flatten(1))), noise, slice(self.pooled, None), 0.5)
        return self.fourth(x)


class MNIST(Plain):
    """FedCompass, table 8."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, 32, 5), nn.Conv2d(32, 64, 5)
        last = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        self.third, self.fourth = nn.Linear(64 * last[0] * last[1], 512), nn.Linear(512, classes)

    def forward(self, x: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.first(channels_first(x))), 2)
        x = functional.max_pool2d(functional.relu(self.second(x)), 2)
        return self.fourth(functional.relu(self.third(x.flatten(1))))


class Block(nn.Module):
    """Two convolutions and a shortcut (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(2, outputs)
        self.second, self.second_norm = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(2, outputs)
        self.across = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None
        self.across_norm = nn.GroupNorm(2, outputs) if inputs != outputs else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second_norm(self.second(functional.relu(self.norm(self.first(x)))))
        return functional.relu(y + (x if self.across is None else self.across_norm(self.across(x))))


class ResNet18(Plain):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.GroupNorm(2, 64)
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        sizes += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        self.blocks = nn.Sequential(*(Block(*size) for size in sizes))
        self.last = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        x = functional.relu(self.norm(self.first(channels_first(x))))
        return self.last(self.blocks(functional.max_pool2d(x, 3, 2, 1)).mean((2, 3)))


def plain_module(model: Model, shape: tuple[int, ...], classes: int) -> Plain:
    height, width, channels = (*shape, 1, 1, 1)[:3] if len(shape) != 2 else (*shape, 1)
    match model:
        case Logistic():
            return Dense([int(np.prod(shape)), classes])
        case MLP():
            return Dense([int(np.prod(shape)), *model.hidden, classes])
        case EMNISTCNN():
            return EMNIST(height, width, channels, classes)
        case MNISTCNN():
            return MNIST(height, width, channels, classes)
        case CIFAR100ResNet18():
            return ResNet18(channels, classes)
    raise AssertionError(model)


class PlainYogi(torch.optim.Optimizer):
    """Reddi et al. 2021, Algorithm 2, FedYogi, as it is printed there, with tau^2 for v_-1."""

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float, betas: tuple[float, float], tau: float) -> None:
        super().__init__(parameters, {"rate": rate, "betas": betas, "tau": tau})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            (beta1, beta2), rate, tau = group["betas"], group["rate"], group["tau"]
            for x in group["params"]:
                state = self.state[x]
                m = beta1 * state.get("m", 0.0) + (1 - beta1) * x.grad
                v = state.get("v", torch.full_like(x, tau**2))
                v = v - (1 - beta2) * x.grad**2 * torch.sign(v - x.grad**2)
                state["m"], state["v"] = m, v
                x -= rate * m / (v**0.5 + tau)


def torch_optimizer(client: ClientSettings, module: nn.Module) -> torch.optim.Optimizer:
    settings = client.optimizer
    if isinstance(settings, SGD):
        return torch.optim.SGD(
            module.parameters(), settings.rate, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
    if isinstance(settings, Yogi):
        return PlainYogi(module.parameters(), settings.rate, settings.betas, settings.epsilon)
    if isinstance(settings, Adagrad):
        return torch.optim.Adagrad(
            module.parameters(), settings.rate, initial_accumulator_value=settings.epsilon**2, eps=settings.epsilon
        )
    kind = torch.optim.AdamW if isinstance(settings, AdamW) else torch.optim.Adam
    return kind(
        module.parameters(), settings.rate, settings.betas, settings.epsilon, weight_decay=settings.weight_decay
    )


def reference_delta(
    model: Model,
    client: ClientSettings,
    data: FederatedData,
    weights: np.ndarray,
    key: tuple[int, int],
    steps: int,
    seed: int = 0,
    trial: int = 0,
    device: str = "cpu",
    teacher: np.ndarray | None = None,
) -> np.ndarray:
    """Start minus end, float64 [parameters], of (client, participation) = ``key`` from ``weights``; both in torch's
    order, parameter after parameter, as ``teacher``'s weights are. The update is clipped."""
    module = plain_module(model, data.shape, data.classes).double()
    teaching = plain_module(model, data.shape, data.classes).double()
    if teacher is not None:
        nn.utils.vector_to_parameters(torch.from_numpy(teacher.astype(np.float64)), teaching.parameters())
    start = torch.from_numpy(weights.astype(np.float64))
    nn.utils.vector_to_parameters(start.clone(), module.parameters())
    optimizer = torch_optimizer(client, module)
    first, last = data.offsets[key[0]], data.offsets[key[0] + 1]
    rows = batch_rows(stream(seed, trial, BATCHES, *key), last - first, client.batch_size)
    total = client.batch_size * module.bytes_an_example
    noises = step_bytes(stream(seed, trial, DROPOUT, *key), total, device)
    with torch.enable_grad():
        for _ in range(steps):
            batch = first + next(rows)
            noise = torch.from_numpy(next(noises).copy()).view(client.batch_size, -1)[: len(batch)]
            features = torch.from_numpy(data.features[batch]).double()
            scores = module(features, noise)
            loss = functional.cross_entropy(scores, torch.from_numpy(data.labels[batch]))
            if teacher is not None:
                taught = teaching(features, None).softmax(1).detach()
                loss = loss - client.distillation * (taught * scores.log_softmax(1)).sum(1).mean()
            if client.rate_normalization:
                optimizer.param_groups[0]["lr"] = client.optimizer.rate * len(batch) / client.batch_size
            now = nn.utils.parameters_to_vector(module.parameters())
            optimizer.zero_grad()
            (loss + client.proximal / 2 * (now - start).square().sum()).backward()
            optimizer.step()
    delta = (start - nn.utils.parameters_to_vector(module.parameters()).detach()).numpy()
    length = np.sqrt((delta**2).sum())
    return delta if client.clip is None or length <= client.clip else delta * client.clip / length
