"""Devices: how fast they compute and how fast their links are."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedhpc.latency.damaged import DamagedFile


class Profiles(NamedTuple):
    """``computation``: milliseconds an example, and ``communication``: kilobits a second, both float64 [devices] and
    above 0."""

    computation: NDArray[np.float64]
    communication: NDArray[np.float64]

    def of(self, chosen: NDArray[np.int64]) -> "Profiles":
        """The devices of these numbers, [chosen]."""
        return Profiles(self.computation[chosen], self.communication[chosen])


LEAST, MOST = 1e-9, 1e15
"""Beyond these no device's time could be counted."""


def checked(profiles: Profiles) -> Profiles:
    """The same. Raises DamagedFile where there is no device, or one whose figures are not within ``LEAST`` and
    ``MOST``; it is told by its number."""
    if not len(profiles.computation):
        raise DamagedFile("it holds no device")
    for key, values in profiles._asdict().items():
        wrong = np.flatnonzero(~((values >= LEAST) & (values <= MOST)))
        if wrong.size:
            at = int(wrong[0])
            raise refused(key, str(at), f"{values.item(at):g}")
    return profiles


def refused(key: str, name: str, value: str) -> DamagedFile:
    """What is raised for a figure that cannot be."""
    return DamagedFile(f"{key} of device {name} is {value}, which must be above 0 ({LEAST:g} to {MOST:g})")
