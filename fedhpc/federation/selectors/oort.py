"""Oort: guided participant selection (Lai et al. 2021, Algorithm 1).

Clients whose last loss was large are worth selecting, less so where they are slower than the preferred duration T, and
more so the longer ago that loss was; a part of each round explores those of whom nothing is known but their size and
their speed. A pacer lets T grow where rounds yield less than those before.

What the paper leaves open is as the released code has it: durations are compared by their percentiles over all clients;
utilities are scaled to 0..1 before the confidence is added, which would be nothing beside them; the pacer looks at the
end of each window; who is explored is drawn, by size and speed, from a window of the best. Where one kind of client is
too few, the other fills the round.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.selectors.selector import Selector, Wanted
from fedhpc.federation.selectors.smallest import smallest
from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation
from fedhpc.federation.weighted_draw import drawn_by_weight
from fedhpc.settings import Settings


class OortSettings(Settings):
    """``exploration`` is the part of a round that explores, epsilon; it is multiplied by ``exploration_decay`` after
    every round, down to ``least_exploration``. Explored are clients drawn from the ``exploration_window`` times as many
    that are best by their size and speed.

    ``preferred_percent``: T begins as that percentile of all clients' durations. ``pacer_rounds`` is W and
    ``pacer_percent`` Delta: where W rounds came to a smaller utility than the W before, T becomes the percentile that
    is so much higher. ``penalty`` is alpha: a client of duration D > T is worth (T / D)^alpha as much.

    ``clip_percent``: a larger utility than that percentile counts as that percentile. ``confidence`` is 0.1 of line
    10: a utility last measured in round L gains sqrt(confidence ln R / L) in round R. ``cut_off`` is c: clients are
    drawn by their utility among those who have c times the utility of the last that the round has room for.
    """

    kind: Literal["oort"]
    exploration: float = Field(0.9, ge=0, le=1)
    exploration_decay: float = Field(0.98, gt=0, le=1)
    least_exploration: float = Field(0.2, ge=0, le=1)
    exploration_window: float = Field(5.0, ge=1, le=1e6)
    preferred_percent: float = Field(5.0, gt=0, le=100)
    pacer_rounds: int = Field(20, ge=1, le=10**6)
    pacer_percent: float = Field(5.0, ge=0, le=100)
    penalty: float = Field(2.0, ge=0, le=100)
    clip_percent: float = Field(95.0, gt=0, le=100)
    confidence: float = Field(0.1, ge=0, le=1e6)
    cut_off: float = Field(0.95, ge=0, le=1)


class Oort(Selector):
    """Lines are Algorithm 1's. ``client``: the work that all clients are given."""

    def __init__(self, settings: OortSettings, client: ClientSettings) -> None:
        self.settings, self.client = settings, client
        self.exploration = settings.exploration
        self.percent = settings.preferred_percent
        self.preferred = math.inf
        """T, in virtual seconds."""
        self.achieved: deque[float] = deque(maxlen=2 * settings.pacer_rounds)
        """The statistical utility that each of the last rounds came to."""
        self.rounds = 0
        self.unread: list[tuple[int, Sequence[Participation]]] = []
        """Rounds and their updates, the losses of which are not known yet."""
        self.known = False

    def meet(self, server: Server) -> None:
        """What is known of all clients beforehand: their durations by a forecast, and how much they train on."""
        clients = len(server.population)
        self.known = True
        self.durations = server.durations()
        self.trained = np.minimum(server.population.examples, self.most_trained(self.client.steps))
        self.utility = np.zeros(clients)
        self.last = np.zeros(clients, np.int64)
        """The round in which each client's loss was last measured, 0 where it never was."""
        self.prefer()

    def most_trained(self, steps: int | None) -> float:
        """Examples that fit into so many mini-batches."""
        return math.inf if steps is None else steps * self.client.batch_size

    def select(self, server: Server, wanted: Wanted) -> NDArray[np.int64]:
        if not self.known:
            self.meet(server)
        self.learn(server)  # lines 6-8
        candidates = server.candidates()
        is_explored = self.last[candidates] > 0
        explored, unexplored = candidates[is_explored], candidates[~is_explored]
        count = min(wanted.count, len(candidates))
        new = min(int(self.exploration * count), len(unexplored))
        old = min(count - new, len(explored))
        return np.concatenate(
            [self.exploit(server, explored, old, wanted.round), self.explore(server, unexplored, count - old)]
        )

    def exploit(self, server: Server, explored: NDArray[np.int64], count: int, round_now: int) -> NDArray[np.int64]:
        """Lines 9-15."""
        if count == 0:
            return explored[:0]
        worth = self.worth(explored, round_now)
        least = self.settings.cut_off * np.partition(worth, -count)[-count]
        admitted = np.flatnonzero(worth >= least)
        return explored[admitted[drawn_by_weight(server.chance, worth[admitted], count)]]

    def worth(self, explored: NDArray[np.int64], round_now: int) -> NDArray[np.float64]:
        """Util of lines 9-12, float64 [clients]."""
        utility = self.utility[explored]
        most = float(np.percentile(utility, self.settings.clip_percent))
        utility = np.minimum(utility, most) - utility.min()
        if utility.max() > 0:
            utility /= utility.max()
        utility += np.sqrt(self.settings.confidence * math.log(round_now) / self.last[explored])
        utility *= self.share_of_slow(explored)
        return utility

    def explore(self, server: Server, unexplored: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Line 16."""
        if count == 0:
            return unexplored[:0]
        weights = self.trained[unexplored] * self.share_of_slow(unexplored)
        best = smallest(-weights, math.ceil(self.settings.exploration_window * count), server.chance)
        return unexplored[best[drawn_by_weight(server.chance, weights[best], count)]]

    def share_of_slow(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """(T / D)^alpha of those who take longer than T, 1 of the others, float64 [clients]."""
        durations, preferred = self.durations[clients], self.preferred
        share = np.ones(len(clients))
        np.divide(preferred, durations, out=share, where=durations > preferred)
        return np.power(share, self.settings.penalty, out=share)

    def learn(self, server: Server) -> None:
        """Statistical utility: examples trained on, times the square root of their mean squared loss."""
        for round_then, updates in self.unread:
            total = 0.0
            for update in updates:
                trained = min(update.examples, self.most_trained(update.steps))
                utility = trained * math.sqrt(server.loss(update)) if trained else 0.0
                self.utility[update.client], self.last[update.client] = utility, round_then
                total += utility
            self.achieved.append(total)
            self.pace()
        self.unread = []

    def pace(self) -> None:
        """Lines 7-8, at the end of each window."""
        self.rounds += 1
        window, achieved = self.settings.pacer_rounds, list(self.achieved)
        if self.rounds % window or len(achieved) < 2 * window:
            return
        if sum(achieved[:window]) > sum(achieved[window:]):
            self.percent = min(100.0, self.percent + self.settings.pacer_percent)
            self.prefer()

    def prefer(self) -> None:
        """T, of what is known of the durations now."""
        self.preferred = float(np.percentile(self.durations, self.percent)) if self.percent < 100 else math.inf

    def uploaded(self, update: Participation, round_now: int) -> None:
        self.durations[update.client] = update.arrives - update.started

    def closed(self, updates: Sequence[Participation], round_now: int) -> None:
        self.unread.append((round_now, updates))
        decayed = max(self.exploration * self.settings.exploration_decay, self.settings.least_exploration)
        self.exploration = min(self.exploration, decayed)
