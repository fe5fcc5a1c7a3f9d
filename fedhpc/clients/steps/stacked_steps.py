"""Steps of many clients' models as one batched computation, by autograd; on a GPU as the replay of captured steps."""

import gc
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import nn

from fedhpc.clients.losses import distilled_cross_entropy
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.distillation import Teachers, soft_targets
from fedhpc.clients.steps.proximal import add_proximal
from fedhpc.clients.steps.rate_normalization import fractions
from fedhpc.clients.steps.shares import shares
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.models.flat import bind, flatten
from fedhpc.models.stacked import StackedModel
from fedhpc.torch_optimizers import TorchOptimizer

_WARM_UP = 3
"""Steps before a capture, in which libraries choose their kernels and allocate (torch's notes on CUDA graphs)."""


class Inputs(NamedTuple):
    """What a step is taken with, of the clients that take it."""

    features: torch.Tensor
    labels: torch.Tensor
    share: torch.Tensor
    noise: torch.Tensor | None
    fraction: torch.Tensor | None

    def each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Inputs":
        """What ``change`` makes of them."""
        noise = None if self.noise is None else change(self.noise)
        fraction = None if self.fraction is None else change(self.fraction)
        return Inputs(change(self.features), change(self.labels), change(self.share), noise, fraction)


class StackedSteps:
    """Trains up to ``choice.clients`` models, rows of ``weights``, float32 [clients, parameters]; ``module`` views
    row 0. ``shape`` is one example's."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], settings: ClientSettings, choice: StepChoice) -> None:
        self.module = module
        self.weights = flatten(module).repeat(choice.clients, 1)
        bind(module, self.weights[0])
        self._model = StackedModel(module, shape, choice.convolution)
        self._start = torch.zeros_like(self.weights) if settings.proximal else self.weights
        self._half = settings.precision == "bf16"
        self._teachers: Teachers | None = None
        if settings.distillation:
            kept = torch.zeros_like(self.weights, dtype=torch.bfloat16 if self._half else torch.float32)
            self._teachers = Teachers(kept, kept.new_zeros(choice.clients, dtype=torch.float32))
        self._optimizer = TorchOptimizer(settings.optimizer, self._model.views(self.weights))
        self._settings = settings
        self._leaves = lru_cache(maxsize=None)(self._leaves_of_the_first)
        self._take = self._replay if choice.graph else self._step
        self._captured: dict[int, tuple[torch.cuda.CUDAGraph, Inputs]] = {}
        if choice.graph:
            # Nothing in a captured step's own memory outlives the step, and one step runs at a time: they share it.
            self._pool = torch.cuda.graph_pool_handle()
            self._beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def begin(self, start: torch.Tensor, teachers: Teachers | None) -> None:
        """Clients start from the rows of ``start``, float32 [their number, parameters], and learn from ``teachers``
        too."""
        self.weights[: len(start)].copy_(start)
        if self._settings.proximal:
            self._start[: len(start)].copy_(start)
        if self._teachers is not None:
            # A captured step has its teachers' place and asks them in any case.
            self._teachers.weights[: len(start)].copy_(start if teachers is None else teachers.weights)
            self._teachers.strengths[: len(start)] = 0.0 if teachers is None else teachers.strengths
        self._optimizer.reset()

    def train(self, chunk: Chunk, between_steps: Callable[[], None]) -> None:
        """Takes the chunk's steps, and calls ``between_steps`` before each."""
        share, fraction = shares(chunk).squeeze(-1), None
        if self._settings.rate_normalization:
            fraction = fractions(chunk, self._settings.batch_size)
        whole = Inputs(chunk.features, chunk.labels, share, chunk.noise, fraction)
        for step, clients in enumerate(chunk.active):
            between_steps()
            self._take(clients, whole.each(itemgetter((step, slice(clients)))))

    def _step(self, clients: int, inputs: Inputs) -> None:
        leaves = self._leaves(clients)
        features = inputs.features.bfloat16() if self._half else inputs.features
        soft = self._soft_targets(clients, features)
        with torch.enable_grad():
            weights: Sequence[torch.Tensor] = leaves
            if self._half:
                weights = [leaf.bfloat16() for leaf in leaves]
            scores = self._model.forward_views(weights, features, inputs.noise).float()
            losses = distilled_cross_entropy(scores, inputs.labels, soft, "none")
            loss = losses.flatten() @ inputs.share.flatten()
        gradients = torch.autograd.grad(loss, leaves)
        if mu := self._settings.proximal:
            current, starts = self._model.views(self.weights[:clients]), self._model.views(self._start[:clients])
            add_proximal(gradients, current, starts, mu)
        self._optimizer.step(gradients, clients, inputs.fraction)

    def _soft_targets(self, clients: int, features: torch.Tensor) -> torch.Tensor | None:
        """[clients, batch, *places, classes], or None without distillation."""
        if self._teachers is None:
            return None
        scores = self._model.forward(self._teachers.weights[:clients], features, None)
        return soft_targets(scores, self._teachers.strengths[:clients])

    def _leaves_of_the_first(self, clients: int) -> list[torch.Tensor]:
        return [view.detach().requires_grad_() for view in self._model.views(self.weights[:clients])]

    def _replay(self, clients: int, inputs: Inputs) -> None:
        """The step as one launch: captured once for each number of clients, then replayed."""
        if clients not in self._captured:
            self._captured[clients] = self._capture(clients, inputs)
        graph, kept = self._captured[clients]
        for place, value in zip(kept, inputs, strict=True):
            if place is not None and value is not None:
                place.copy_(value)
        graph.replay()

    def _capture(self, clients: int, inputs: Inputs) -> tuple[torch.cuda.CUDAGraph, Inputs]:
        kept = inputs.each(torch.clone)
        changing = [self.weights, *(tensor for tensors in self._optimizer.state.values() for tensor in tensors)]
        before = [tensor.clone() for tensor in changing]
        self._beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._beside):
            for _ in range(_WARM_UP):
                self._step(clients, kept)
        torch.cuda.current_stream().wait_stream(self._beside)
        graph = torch.cuda.CUDAGraph()
        # A graph that is collected as garbage meanwhile would spoil the capture.
        gc.collect()
        gc.disable()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                self._step(clients, kept)
        finally:
            gc.enable()
        for tensor, value in zip(changing, before, strict=True):
            tensor.copy_(value)
        return graph, kept
