"""Oort: guided participant selection (Lai et al. 2021, Algorithm 1).

Clients whose last loss was large are worth selecting, less so where they are slower than the preferred duration T, and
more so the longer ago that loss was; a part of each round explores those of whom nothing is known but their size and
their speed. A pacer lets T grow where rounds yield less than those before.

What the paper leaves open is as the released code has it: durations are compared by their percentiles over all clients;
utilities are scaled to 0..1 before the confidence is added, which would be nothing beside them; the pacer looks at the
end of each window; who is explored is drawn, by size and speed, from a window of the best. Where one kind of client is
too few, the other fills the round. A client whose update came too late to be used is explored, its duration is known,
and its utility is what it was, 0 at first.
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
        self.has_met = False
        self.exploration = settings.exploration
        self.percent = settings.preferred_percent
        self.preferred = math.inf
        """T, in virtual seconds."""
        self.achieved: deque[float] = deque(maxlen=2 * settings.pacer_rounds)
        """The statistical utility that each of the last rounds came to."""
        self.rounds = 0
        """All of them."""
        self.ranking = np.empty(0, np.int64)
        """The unexplored clients, the best first; some may have been explored since."""
        self.unread: list[tuple[int, Sequence[Participation]]] = []
        """Rounds and their updates, the losses of which are not known yet."""

    def meet(self, server: Server) -> None:
        """What is known of all clients beforehand: how long they take by a forecast, and how much they train on."""
        self.has_met, population = True, server.population
        self.durations = server.durations()
        self.trained = np.minimum(population.examples, self.most_trained(self.client.steps))
        self.explored = np.zeros(len(population), bool)
        self.utility = np.zeros(len(population))
        self.last = np.zeros(len(population), np.int64)
        """The round in which each client's loss was last measured; where it never was, in which it first came."""
        self.prefer(server)

    def most_trained(self, steps: int | None) -> float:
        """Examples that fit into so many mini-batches."""
        return math.inf if steps is None else steps * self.client.batch_size

    def select(self, server: Server, wanted: Wanted) -> NDArray[np.int64]:
        if not self.has_met:
            self.meet(server)
        self.learn(server)  # lines 6-8
        candidates = server.candidates()
        explored = np.flatnonzero(candidates & self.explored)
        unexplored = candidates & ~self.explored
        others = int(np.count_nonzero(unexplored))
        count = min(wanted.count, len(explored) + others)
        to_explore = min(int(self.exploration * count), others)
        to_exploit = min(count - to_explore, len(explored))
        return np.concatenate(
            [
                self.exploit(server, explored, to_exploit, wanted.round),
                self.explore(server, unexplored, count - to_exploit),
            ]
        )

    def exploit(self, server: Server, explored: NDArray[np.int64], count: int, round_now: int) -> NDArray[np.int64]:
        """Lines 9-15: ``count`` of the explored clients, who are in ascending order."""
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
        scaled: NDArray[np.float64] = np.minimum(utility, most) - utility.min()
        if (largest := scaled.max()) > 0:
            scaled /= largest
        scaled += np.sqrt(self.settings.confidence * math.log(round_now) / self.last[explored])
        return scaled * self.slowness(explored)

    def explore(self, server: Server, unexplored: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
        """Line 16: ``count`` of the unexplored candidates, bool [clients]."""
        if count == 0:
            return np.empty(0, np.int64)
        best = first_of(self.ranking, unexplored, math.ceil(self.settings.exploration_window * count))
        weights = self.trained[best] * self.slowness(best)
        return best[drawn_by_weight(server.chance, weights, count)]

    def slowness(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Lines 11-12: (T / D)^alpha of those who take longer than T, 1 of the others, float64 [clients]."""
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
            self.pace(server)
        self.unread = []

    def pace(self, server: Server) -> None:
        """Lines 7-8, at the end of each window."""
        self.rounds += 1
        window, achieved = self.settings.pacer_rounds, list(self.achieved)
        if self.rounds % window or len(achieved) < 2 * window:
            return
        if sum(achieved[:window]) > sum(achieved[window:]) and self.percent < 100:
            self.percent = min(100.0, self.percent + self.settings.pacer_percent)
            self.prefer(server)
        else:
            self.ranking = self.ranking[~self.explored[self.ranking]]

    def prefer(self, server: Server) -> None:
        """T, of what is known of the durations now, and the unexplored clients by what they are worth with it."""
        self.preferred = float(np.percentile(self.durations, self.percent)) if self.percent < 100 else math.inf
        unexplored = server.chance.permutation(np.flatnonzero(~self.explored))
        worth = self.trained[unexplored] * self.slowness(unexplored)
        self.ranking = unexplored[np.argsort(-worth, kind="stable")]

    def uploaded(self, update: Participation, round_now: int) -> None:
        client = update.client
        self.durations[client] = update.arrives - update.started
        if not self.explored[client]:
            self.explored[client], self.last[client] = True, round_now

    def closed(self, updates: Sequence[Participation], round_now: int) -> None:
        self.unread.append((round_now, updates))
        decayed = max(self.exploration * self.settings.exploration_decay, self.settings.least_exploration)
        self.exploration = min(self.exploration, decayed)


def first_of(ranking: NDArray[np.int64], chosen: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """The first ``count`` clients of a ranking who are chosen, bool [clients]; all where they are fewer."""
    found, begin, size = np.empty(0, np.int64), 0, 4 * count
    while len(found) < count and begin < len(ranking):
        block = ranking[begin : begin + size]
        found = np.concatenate([found, block[chosen[block]]])
        begin, size = begin + size, 2 * size
    return found[:count]
