"""The noise of differential privacy, each piece a function of its name: computable alone, anywhere, after a resume.

DP-FTRL (Kairouz et al. 2021, Algorithm 1 and appendix B.1) releases noisy prefix sums of the server updates: the
noise N(t) of the first t is the sum over the nodes of a binary tree that cover them, one for each bit of t. The
server's update t receives N(t) - N(t-1), so that its own running sum is the noisy prefix sum: what FedBuff's Algorithm
1, line 13, means.
"""

import numpy as np
from numpy.typing import NDArray

from fedhpc.streams import ParticipationStream, Purpose

Vector = NDArray[np.float32]


def noise_std(noise_multiplier: float, clip: float, largest_weight: float) -> float:
    """The standard deviation of the noise on a weighted sum of clipped updates, of which none weighs more than
    ``largest_weight``: the multiplier times what one client can change (its L2 sensitivity)."""
    return noise_multiplier * clip * largest_weight


class TreeNoise:
    """DP-FTRL's noise: every node of every tree has its own N(0, std^2) in each of the ``parameters``.

    Nothing is kept between steps. A step draws two nodes on average and log2(step) + 1 at most.
    """

    def __init__(self, seed: int, trial: int, std: float, parameters: int) -> None:
        self._streams = ParticipationStream(seed, trial, Purpose.PRIVACY)
        self._std, self._parameters = std, parameters

    def increment(self, tree: int, step: int) -> Vector:
        """N(step) - N(step-1) of that tree, float32 [parameters]. Trees count from 0, and a tree's steps from 1.

        Raises ValueError at a step below 1.
        """
        if step < 1:
            raise ValueError(f"step {step} is none of a tree, whose steps count from 1")
        # Adding 1 to step - 1 clears its lowest ones and sets the bit above: one node covers what theirs did, and step.
        completed = (step & -step).bit_length() - 1
        increment = self._node(tree, completed, (step >> completed) - 1)
        for level in range(completed):
            increment -= self._node(tree, level, ((step - 1) >> level) - 1)
        increment *= self._std
        return increment

    def _node(self, tree: int, level: int, position: int) -> Vector:
        """Unit noise of the node over the steps position * 2^level + 1 to (position + 1) * 2^level."""
        in_order = (2 * position + 1) << level  # every node of a tree has another
        return self._streams.at(tree, in_order).standard_normal(self._parameters, np.float32)


class GaussianNoise:
    """DP-SGD's noise: every step has its own N(0, std^2) in each of the ``parameters``."""

    def __init__(self, seed: int, trial: int, std: float, parameters: int) -> None:
        self._streams = ParticipationStream(seed, trial, Purpose.PRIVACY)
        self._std, self._parameters = std, parameters

    def of(self, step: int) -> Vector:
        """The noise of that step, float32 [parameters]."""
        noise: Vector = self._streams.at(0, step).standard_normal(self._parameters, np.float32)
        noise *= self._std
        return noise
