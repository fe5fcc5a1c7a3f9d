"""Devices: how fast they compute and how fast their links are."""

from collections.abc import Sequence
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


def checked(profiles: Profiles, names: Sequence[object] | None = None) -> Profiles:
    """The same. Raises DamagedFile where there is no device, or one whose figures are not above 0; it is told by its
    number, or its name where there are ``names``."""
    if not len(profiles.computation):
        raise DamagedFile("it holds no device")
    for key, values in profiles._asdict().items():
        wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if wrong.size:
            at = int(wrong[0])
            name = at if names is None else names[at]
            raise DamagedFile(f"{key} of device {name!r} is {values.item(at):g}, which must be above 0")
    return profiles
