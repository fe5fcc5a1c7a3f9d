"""Losses of clients who do not train: for a selection that asks for them under the null task, and in a plan."""

import math

from fedhpc.streams import ParticipationStream, Purpose

_CLASSES = 10
_SIGMA = 0.5


class SyntheticLosses(dict[tuple[int, int], float]):
    """The squared loss of each (client, participation), in nats^2: what guessing among ten classes comes to at the
    client's first participation, and less by 1 / (1 + p)^2 at the p-th after it, times a factor that is the client's
    own, log-normal with mu 0 and sigma 0.5. Nothing is kept: it depends on the trial's seed and the key alone."""

    def __init__(self, seed: int, trial: int) -> None:
        super().__init__()
        self._at = ParticipationStream(seed, trial, Purpose.SYNTHETIC_LOSS).at

    def __missing__(self, key: tuple[int, int]) -> float:
        client, participation = key
        own = math.exp(_SIGMA * self._at(client, 0).standard_normal())
        return own * (math.log(_CLASSES) / (1 + participation)) ** 2
