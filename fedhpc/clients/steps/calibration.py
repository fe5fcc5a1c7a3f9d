"""Which way to compute a step is fastest here: a short measurement (law 3: made once an experiment, then kept)."""

import gc
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.objective import CLASSIFICATION, Objective
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.candidates import UnfitChoice, candidates
from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import Device, StepChoice, StepWishes
from fedhpc.clients.work import NO_TEACHER, Member, teacher_id
from fedhpc.data.federated import FederatedData
from fedhpc.models.own import in_words, refuse
from fedhpc.models.own_file import find_own
from fedhpc.models.parameters import parameters_of
from fedhpc.models.settings import Model, OwnModule

_SECONDS = 0.06
_REPEATS = 5
_MOST_STEPS = 100
_WORTH_IT = 2 / 3
"""A way that is preferred less must take less than this share of the time: noise is not to change the numbers."""


def calibrate(
    model: Model,
    client: ClientSettings,
    data: FederatedData,
    updates: int,
    wishes: StepWishes,
    objective: Objective = CLASSIFICATION,
) -> list[tuple[StepChoice, float]]:
    """The ways that fit the wishes, the one to take first, with the seconds that one client's step takes (0 where no
    client has an example). ``updates`` make a server update.

    Raises UnfitChoice where what is wished for cannot be.
    """
    if wishes.device == "cuda" and not torch.cuda.is_available():
        raise UnfitChoice("step.device: cuda is wished for, and this host has no GPU; run where there is one")
    shape = objective.model_shape(data.shape)
    parameters = parameters_of(model, shape, data.classes, len(data.words))
    ways = candidates(model, client, wishes.device or _device(), updates, parameters, wishes)
    clocks = []
    for way in ways:
        try:
            clocks.append((way, _clock(model, client, data, way, objective)))
        except torch.OutOfMemoryError:
            if way is ways[-1] and not clocks:
                raise
    # In turn, so that a machine that is slow for a moment is slow for all.
    rounds = [[seconds_per_step() for _, seconds_per_step in clocks] for _ in range(_REPEATS)]
    measured = [(way, min(found)) for (way, _), found in zip(clocks, zip(*rounds, strict=True), strict=True)]
    # Steps and their closures hold each other: else their memory would be kept while the run goes on.
    clocks.clear()
    gc.collect()
    best = measured[0]
    for other in measured[1:]:
        if other[1] < _WORTH_IT * best[1]:
            best = other
    return [best, *(other for other in measured if other is not best)]


def _device() -> Device:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _clock(
    model: Model, client: ClientSettings, data: FederatedData, choice: StepChoice, objective: Objective
) -> Callable[[], float]:
    """What measures the seconds that a step of a client of middling size takes; warmed up."""
    sizes = np.diff(data.offsets)
    middling = int(np.argsort(sizes)[-(np.count_nonzero(sizes) // 2 + 1)])
    most = min(client.local_steps(int(sizes[middling])), _MOST_STEPS)
    if not most:
        return lambda: 0.0
    prepare_device(choice, client.precision)
    training = LocalTraining(model, client, data, 0, 0, choice, objective=objective)
    # With distillation each client has a teacher of its own, as in a federation.
    teachers = [teacher_id(take) if client.distillation else NO_TEACHER for take in range(choice.clients)]
    versions = dict.fromkeys({0, *teachers} - {NO_TEACHER}, training.initial_weights())

    def seconds(steps: int) -> float:
        members = [Member(0, middling, take, steps, 1.0, teacher) for take, teacher in enumerate(teachers)]
        start = time.perf_counter()
        training.update(versions, members, _nothing)
        return time.perf_counter() - start

    try:
        seconds(1)
    except torch.OutOfMemoryError:
        raise
    except (Exception, SystemExit) as error:
        if not isinstance(model, OwnModule):
            raise
        # Its own checks have tried it on zeros only.
        file = model.file or find_own(model.module, Path.cwd())
        refuse(file, f"its module raises {in_words(error)} as it trains on the data")
    # More steps until they take long enough to be timed, whatever an update costs before its first step.
    steps = 1
    while steps < most and seconds(steps) < _SECONDS:
        steps = min(most, 2 * steps)
    return lambda: seconds(steps) / (steps * choice.clients)


def _nothing() -> None:
    pass
