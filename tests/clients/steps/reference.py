"""Local training written out plainly: torch modules, torch.optim, autograd, one client and one batch at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.work import Member
from fedhpc.data.federated import FederatedData
from fedhpc.models.architectures import build_model
from fedhpc.models.channels_last import channels_last
from fedhpc.models.flat import flatten
from fedhpc.models.settings import EMNISTCNN, Model
from fedhpc.streams import ParticipationStream, Purpose

SEED, TRIAL = 5, 2
DROPPED_BYTES = {"emnist_cnn": lambda side: ((side - 4) // 2) ** 2 * 64 + 128}


def images(shape: tuple[int, ...], sizes: list[int], classes: int) -> FederatedData:
    """Clients with so many random examples each."""
    draw = np.random.default_rng(1)
    count = sum(sizes)
    return FederatedData(
        features=draw.random((count, *shape), np.float32),
        labels=draw.integers(0, classes, count),
        offsets=np.cumsum([0, *sizes]),
        stragglers=np.zeros(len(sizes), bool),
        straggler_classes=np.empty(0, np.int64),
        test_features=draw.random((3, *shape), np.float32),
        test_labels=draw.integers(0, classes, 3),
        classes=classes,
        client_names=tuple(map(str, range(len(sizes)))),
        class_names=tuple(map(str, range(classes))),
    )


def delta(
    model: Model, settings: ClientSettings, data: FederatedData, weights: np.ndarray, member: Member
) -> np.ndarray:
    """Start minus end of one client, in the order of the module's own parameters."""
    module = build_model(model, data.shape, data.classes).train()
    nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), module.parameters())
    start = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = _optimizer(settings, module)
    key = (member.client, member.participation)
    order = ParticipationStream(SEED, TRIAL, Purpose.BATCHES).at(*key)
    noise = ParticipationStream(SEED, TRIAL, Purpose.DROPOUT).at(*key)
    first, last = data.offsets[member.client : member.client + 2]
    rows: list[int] = []
    for _ in range(member.steps):
        rows = rows or (first + order.permutation(last - first)).tolist()
        batch, rows = rows[: settings.batch_size], rows[settings.batch_size :]
        features, labels = torch.from_numpy(data.features[batch]), torch.from_numpy(data.labels[batch])
        optimizer.zero_grad()
        functional.cross_entropy(_forward(model, module, settings, data)(features, noise), labels).backward()
        for parameter, origin in zip(module.parameters(), start, strict=True):
            parameter.grad += settings.proximal * (parameter.detach() - origin)
        optimizer.step()
    ends = list(module.parameters())
    return torch.cat([(a - b.detach()).flatten() for a, b in zip(start, ends, strict=True)]).numpy()


def _optimizer(settings: ClientSettings, module: nn.Module) -> torch.optim.Optimizer:
    given: dict[str, Any] = settings.optimizer.model_dump()
    rate, decay = given["rate"], given["weight_decay"]
    if given["name"] == "sgd":
        return torch.optim.SGD(module.parameters(), lr=rate, momentum=given["momentum"], weight_decay=decay)
    return torch.optim.Adam(
        module.parameters(), lr=rate, betas=given["betas"], eps=given["epsilon"], weight_decay=decay
    )


def _forward(
    model: Model, module: nn.Module, settings: ClientSettings, data: FederatedData
) -> Callable[[torch.Tensor, np.random.Generator], torch.Tensor]:
    if not isinstance(model, EMNISTCNN):
        return lambda features, noise: module(features)

    def emnist(features: torch.Tensor, noise: np.random.Generator) -> torch.Tensor:
        a, a0, b, b0, c, c0, d, d0 = module.parameters()
        side = data.shape[0]
        total = DROPPED_BYTES["emnist_cnn"](side)
        # A step takes the bytes of a full batch, whole words of eight.
        words = noise.integers(0, 2**64, -(-settings.batch_size * total // 8), dtype=np.uint64)
        drawn = torch.from_numpy(words.view(np.uint8)[: settings.batch_size * total].reshape(-1, total).copy())
        drawn = drawn[: len(features)]
        x = functional.relu(functional.conv2d(features.unsqueeze(1), a, a0))
        x = functional.max_pool2d(functional.relu(functional.conv2d(x, b, b0)), 2)
        small = x.shape[2]
        kept = drawn[:, : small * small * 64].reshape(-1, small, small, 64).permute(0, 3, 1, 2) >= 64
        x = functional.relu(functional.linear((x * kept / 0.75).flatten(1), c, c0))
        return functional.linear(x * (drawn[:, small * small * 64 :] >= 128) * 2, d, d0)

    return emnist


def places(model: Model, data: FederatedData) -> np.ndarray:
    """Where the channels-last form keeps each weight: ``kept[i]`` is weight ``places[i]`` of the module's own order."""
    module = build_model(model, data.shape, data.classes)
    count = 0
    for parameter in module.parameters():
        own = torch.arange(count, count + parameter.numel(), dtype=torch.float64)
        parameter.data = own.view(parameter.shape)
        count += parameter.numel()
    return flatten(channels_last(module)).numpy().astype(np.int64)
