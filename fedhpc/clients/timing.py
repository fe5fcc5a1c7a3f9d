"""How long local training takes here: a short measurement, for estimates only."""

import time

import numpy as np
import torch

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.data.federated import FederatedData
from fedhpc.task import Classification

_SECONDS = 0.3
_STEPS = 100


def seconds_per_step(task: Classification, client: ClientSettings, data: FederatedData) -> float:
    """Core-seconds of one mini-batch of a client of middling size, on one thread of this machine."""
    torch.set_num_threads(1)
    training = LocalTraining(task.model, client, data, seed=0, trial=0)
    weights = training.initial_weights()
    sizes = np.diff(data.offsets)
    middling = int(np.argsort(sizes)[-(np.count_nonzero(sizes) // 2 + 1)])
    steps = min(client.local_steps(int(sizes[middling])), _STEPS)
    if not steps:
        return 0.0
    training.client_update(weights, middling, 0, min(steps, 3), _nothing)
    done, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < _SECONDS:
        training.client_update(weights, middling, 0, steps, _nothing)
        done += steps
    return spent / done


def _nothing() -> None:
    pass
