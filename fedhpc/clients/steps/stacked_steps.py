"""Steps of many clients' models as one batched computation, by autograd; on a GPU as the replay of captured steps."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.proximal import add_proximal
from fedhpc.clients.steps.shares import shares
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.models.flat import bind, flatten
from fedhpc.models.stacked import StackedModel
from fedhpc.torch_optimizers import TorchOptimizer

_WARM_UP = 3
"""Steps before a capture, in which libraries choose their kernels and allocate (torch's notes on CUDA graphs)."""

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]
"""A step's features, labels, shares and noise, of the clients that take it."""


class StackedSteps:
    """Trains up to ``choice.clients`` models, rows of ``weights``, float32 [clients, parameters]; ``module`` views
    row 0. ``shape`` is one example's."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], settings: ClientSettings, choice: StepChoice) -> None:
        self.module = module
        self.weights = flatten(module).repeat(choice.clients, 1)
        bind(module, self.weights[0])
        self._model = StackedModel(module, shape, choice.convolution)
        self._start = torch.zeros_like(self.weights) if settings.proximal else self.weights
        self._optimizer = TorchOptimizer(settings.optimizer, self._model.views(self.weights))
        self._proximal = settings.proximal
        self._half = settings.precision == "bf16"
        self._leaves = lru_cache(maxsize=None)(self._leaves_of_the_first)
        self._take = self._replay if choice.graph else self._step
        self._captured: dict[int, tuple[torch.cuda.CUDAGraph, Inputs]] = {}
        if choice.graph:
            # Nothing in a captured step's own memory outlives the step, and one step runs at a time: they share it.
            self._pool = torch.cuda.graph_pool_handle()
            self._beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def begin(self, start: torch.Tensor) -> None:
        """Clients start from the rows of ``start``, float32 [their number, parameters]."""
        self.weights[: len(start)].copy_(start)
        if self._proximal:
            self._start[: len(start)].copy_(start)
        self._optimizer.reset()

    def train(self, chunk: Chunk, between_steps: Callable[[], None]) -> None:
        """Takes the chunk's steps, and calls ``between_steps`` before each."""
        share = shares(chunk).squeeze(3)
        for step, clients in enumerate(chunk.active):
            between_steps()
            noise = None if chunk.noise is None else chunk.noise[step, :clients]
            inputs = (chunk.features[step, :clients], chunk.labels[step, :clients], share[step, :clients], noise)
            self._take(clients, inputs)

    def _step(self, clients: int, inputs: Inputs) -> None:
        features, labels, share, noise = inputs
        leaves = self._leaves(clients)
        with torch.enable_grad():
            weights: Sequence[torch.Tensor] = leaves
            if self._half:
                weights, features = [leaf.bfloat16() for leaf in leaves], features.bfloat16()
            scores = self._model.forward_views(weights, features, noise).float()
            losses = cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
            loss = losses @ share.flatten()
        gradients = torch.autograd.grad(loss, leaves)
        if self._proximal:
            current, starts = self._model.views(self.weights[:clients]), self._model.views(self._start[:clients])
            add_proximal(gradients, current, starts, self._proximal)
        self._optimizer.step(gradients, clients)

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
        features, labels, share, noise = inputs
        kept = (features.clone(), labels.clone(), share.clone(), None if noise is None else noise.clone())
        changing = [self.weights, *(tensor for tensors in self._optimizer.state.values() for tensor in tensors)]
        before = [tensor.clone() for tensor in changing]
        self._beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._beside):
            for _ in range(_WARM_UP):
                self._step(clients, kept)
        torch.cuda.current_stream().wait_stream(self._beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self._step(clients, kept)
        for tensor, value in zip(changing, before, strict=True):
            tensor.copy_(value)
        return graph, kept
