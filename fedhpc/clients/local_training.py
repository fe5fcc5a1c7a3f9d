"""What a client does: local training on its own examples (McMahan et al. 2017; FedProx: Li et al. 2020).

A client update is a pure function of (weights, client, participation, steps): the model's parameters are views of one
flat vector, copied in at the start; the order of the examples comes from the participation's own stream; the
optimiser starts fresh (law 2).
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.work import ShardCounts
from fedhpc.data.federated import FederatedData
from fedhpc.models.architectures import build_model
from fedhpc.models.dense import DenseGradient
from fedhpc.models.settings import Model
from fedhpc.streams import ParticipationStream, Purpose, sequential
from fedhpc.torch_optimizers import FlatOptimizer

Vector = NDArray[np.float32]

EVALUATION_SHARD = 4096
"""Held-out examples that are evaluated as one piece; fixed, so that sums do not depend on the number of ranks."""


class LocalTraining:
    """One rank's workspace: a model, its gradients, and the clients' data."""

    def __init__(self, model: Model, client: ClientSettings, data: FederatedData, seed: int, trial: int) -> None:
        self._data = data
        self._settings = client
        self._orders = ParticipationStream(seed, trial, Purpose.BATCHES)
        self._features = torch.from_numpy(data.features)
        self._labels = torch.from_numpy(data.labels)
        self._offsets = data.offsets.tolist()
        self._is_straggler_class = torch.zeros(data.classes, dtype=torch.bool)
        self._is_straggler_class[torch.from_numpy(data.straggler_classes)] = True
        self._model = _initial_model(model, data, seed, trial)
        self._weights, self._gradient = _flatten(self._model)
        self._find_gradient = DenseGradient(list(self._model.parameters()))
        self._start = torch.empty_like(self._weights)
        self._optimizer = FlatOptimizer(client.optimizer, self._weights, self._gradient)

    def initial_weights(self) -> Vector:
        """Version 0: float32 [parameters], drawn from the trial's own stream. Call it before any training."""
        copy: Vector = self._weights.numpy().copy()
        return copy

    @property
    def shards(self) -> int:
        """Pieces in which the held-out examples are evaluated."""
        return max(1, -(-len(self._data.test_labels) // EVALUATION_SHARD))

    @torch.no_grad()
    def client_update(
        self, weights: Vector, client: int, participation: int, steps: int, between_steps: Callable[[], None]
    ) -> Vector:
        """Trains ``steps`` mini-batches from ``weights`` and returns start minus end, float32 [parameters].

        The client's examples are reshuffled at every pass; a pass's last batch may be short. ``between_steps`` is
        called before every step and must not train.
        """
        first, last = self._offsets[client], self._offsets[client + 1]
        examples, size = last - first, self._settings.batch_size
        self._start.copy_(torch.from_numpy(weights))
        self._weights.copy_(self._start)
        self._optimizer.reset()
        order = self._orders.at(client, participation)
        position = examples
        for _ in range(steps):
            between_steps()
            if position >= examples:
                shuffled = torch.from_numpy(order.permutation(examples)) + first
                features, labels = self._features[shuffled], self._labels[shuffled]
                position = 0
            self._step(features[position : position + size], labels[position : position + size])
            position += size
        return (self._start - self._weights).numpy()

    def evaluate(self, weights: Vector, shard: int) -> ShardCounts:
        """Counts of one shard of the held-out examples."""
        self._weights.copy_(torch.from_numpy(weights))
        piece = slice(shard * EVALUATION_SHARD, (shard + 1) * EVALUATION_SHARD)
        features = torch.from_numpy(self._data.test_features[piece])
        labels = torch.from_numpy(self._data.test_labels[piece])
        with torch.inference_mode():
            scores = self._model(features)
            correct = scores.argmax(1) == labels
            of_stragglers = correct & self._is_straggler_class[labels]
            loss = cross_entropy(scores, labels, reduction="sum")
        return ShardCounts(int(correct.sum()), int(of_stragglers.sum()), float(loss))

    def _step(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        self._find_gradient(features, labels)
        if self._settings.proximal:
            # The gradient of mu/2 |w - w_start|^2 (Li et al. 2020, equation 2).
            self._gradient.add_(self._weights - self._start, alpha=self._settings.proximal)
        self._optimizer.step()


def _initial_model(settings: Model, data: FederatedData, seed: int, trial: int) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(sequential(seed, trial, Purpose.INITIAL_MODEL).integers(2**62)))
        return build_model(settings, data.features.shape[1:], data.classes)


def _flatten(model: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Makes the model's parameters and their gradients views of two flat vectors, which it returns."""
    parameters = list(model.parameters())
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    gradient = torch.zeros_like(weights)
    position = 0
    for parameter in parameters:
        piece = slice(position, position + parameter.numel())
        parameter.data = weights[piece].view_as(parameter)
        parameter.grad = gradient[piece].view_as(parameter)
        position += parameter.numel()
    return weights, gradient
