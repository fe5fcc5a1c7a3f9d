"""What clients' devices add to their time (RELAY: Abdelmoniem et al. 2021, section 5.1):

    3 x batch size x local steps x (milliseconds an example) / 1000 + 2 x (kilobits of the model) / (kilobits a second)

Training takes three times as long as the inference that the profiles measure, and the model travels there and back.
A mini-batch counts in full, whether it is or not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedhpc.latency.device_settings import Devices
from fedhpc.latency.device_sources import devices_of

_TRAINING, _TRIPS = 3, 2
_BITS_A_PARAMETER = 32


@dataclass(frozen=True)
class DeviceTimes:
    """Virtual seconds of each client's device, float64 [clients]: of a mini-batch, and of all that is transferred.
    ``steps``: int64 [clients], the mini-batches of each client's work as its epochs or steps say."""

    per_step: NDArray[np.float64]
    communication: NDArray[np.float64]
    steps: NDArray[np.int64]

    @property
    def updates(self) -> NDArray[np.float64]:
        """What each client's whole work takes it, float64 [clients]."""
        return self.communication + self.per_step * self.steps

    def seconds(self, client: int, steps: int) -> float:
        """What a participation with so many mini-batches takes."""
        return self.communication.item(client) + self.per_step.item(client) * steps


def model_kbit(devices: Devices, parameters: int | None) -> float:
    """The model's size in kilobits: as it is given, or else that of so many ``parameters``."""
    if devices.model_kbit is not None:
        return devices.model_kbit
    assert parameters is not None  # a task without a model is refused with the experiment
    return parameters * _BITS_A_PARAMETER / 1000


def device_times(
    devices: Devices,
    steps: NDArray[np.int64],
    batch_size: int,
    parameters: int | None,
    seed: int,
    trial: int,
) -> DeviceTimes:
    """The clients' device times in a trial.

    ``steps``: int64 [clients], the mini-batches of each client's work. Which devices are the fastest is told by the
    seconds that each would take for the mean of them. ``parameters``: of the task's model, or None where it has none.

    Raises as ``devices_of`` does.
    """
    computation, communication = devices_of(devices, len(steps), seed, trial)
    per_step = _TRAINING * batch_size * computation / 1000
    transfer = _TRIPS * model_kbit(devices, parameters) / communication
    faster = round(devices.faster_percent / 100 * len(steps))
    if faster:
        fastest = np.argsort(per_step * steps.mean() + transfer, kind="stable")[:faster]
        per_step[fastest] /= 2
        transfer[fastest] /= 2
    return DeviceTimes(per_step, transfer, steps)
