"""From a choice to what takes the steps."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn

from fedhpc.clients.objective import Kind
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.compiled_steps import CompiledSteps
from fedhpc.clients.steps.dense_steps import DenseSteps
from fedhpc.clients.steps.distillation import Teachers
from fedhpc.clients.steps.module_steps import ModuleSteps
from fedhpc.clients.steps.stacked_steps import StackedSteps
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.models.channels_last import channels_last


class Steps(Protocol):
    """Up to so many clients' models, the rows of ``weights``, float32 [clients, parameters + statistics]; ``module``
    views row 0."""

    module: nn.Module
    weights: torch.Tensor

    def begin(self, start: torch.Tensor, teachers: Teachers | None) -> None: ...
    def train(self, chunk: Chunk, between_steps: Callable[[], None]) -> None: ...


def make_steps(
    module: nn.Module,
    shape: tuple[int, ...],
    settings: ClientSettings,
    choice: StepChoice,
    kind: Kind = "classification",
) -> Steps:
    """The steps of clients that train ``module``'s architecture on examples of ``shape`` by the loss of a task of this
    kind. Version 0 is the weights that it comes with."""
    match choice.form:
        case "plain":
            return ModuleSteps(module, settings, kind)
        case "channels_last":
            return ModuleSteps(channels_last(module), settings, kind)
        case "compiled":
            return CompiledSteps(channels_last(module), settings, kind)
        case "dense":
            return DenseSteps(module, settings, choice.clients)
        case "stacked":
            return StackedSteps(module, shape, settings, choice)
