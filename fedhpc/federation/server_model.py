"""The server's model: the global weights, past rounds' deltas, and the model that is evaluated."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.work import Alone, Part
from fedhpc.federation.aggregation import Aggregator
from fedhpc.federation.auxiliary_model import AuxiliaryModel
from fedhpc.federation.moving_average import MovingAverage
from fedhpc.federation.privacy_budget import Noise
from fedhpc.federation.round_deltas import RoundDelta, RoundDeltas
from fedhpc.federation.running_statistics import moved_to_clients
from fedhpc.federation.schedulers import AnyAlgorithm
from fedhpc.federation.schedulers.fare_dust import FareDustSettings
from fedhpc.federation.schedulers.feast import FeastSettings
from fedhpc.federation.schedulers.tiered import TieredSettings
from fedhpc.federation.staleness_boost import weights_of_stale
from fedhpc.federation.tier_models import TierModels
from fedhpc.federation.updates import ServerUpdate, TierStep
from fedhpc.optimizers import SGD

Vector = NDArray[np.float32]
State = dict[str, NDArray[np.generic]]


class ServerModel:
    """Applies server updates in their order. ``initial``: version 0, float32 [parameters + statistics]. ``noise``: what
    is added to an update's weighted sum. ``statistics``: how many of a version's last entries are running statistics,
    which move by their own rule."""

    def __init__(
        self, algorithm: AnyAlgorithm, initial: Vector, noise: Noise | None = None, statistics: int = 0
    ) -> None:
        self._noise = noise
        self._parameters = len(initial) - statistics
        self._aggregator = Aggregator(algorithm.server_optimizer, initial[: self._parameters])
        self._statistics = initial[self._parameters :].copy()
        self._averages = MovingAverage(algorithm.ema, initial) if algorithm.ema is not None else None
        self._auxiliary = None
        if isinstance(algorithm, FeastSettings):
            assert isinstance(algorithm.server_optimizer, SGD)
            rate, averages = algorithm.server_optimizer.rate, algorithm.normalization == "mean"
            self._auxiliary = AuxiliaryModel(rate, algorithm.kappa, algorithm.decay, averages, initial)
        self._tiers = TierModels(initial) if isinstance(algorithm, TieredSettings) else None
        self._teacher_rate = algorithm.teacher_rate if isinstance(algorithm, FareDustSettings) else None
        self.deltas = RoundDeltas()

    @property
    def has_output_model(self) -> bool:
        """Whether a model other than the global one is evaluated."""
        return self._averages is not None or self._auxiliary is not None

    def apply(self, update: ServerUpdate, totals: Mapping[Part, Vector], versions: Mapping[int, Vector]) -> Vector:
        """The next version, float32 [parameters + statistics].

        ``totals``: under None the weighted sum of the update's deltas and of where its statistics end, under a round
        the sum of its late ones, and where stale updates are boosted each of these by its place, unweighted; absent
        where nobody had an example. ``versions``: weights by version; of those that the update's clients start from
        where it moves to their models or makes a tier's, and of closed rounds.
        """
        for start, clients in Counter(late.version for late in update.late).items():
            self.deltas.add(start, totals.get(start), clients)
        weights = self._step(update, totals, versions) if update.version else self._weights()
        for start in update.closed:
            delta = self.deltas.by_round.pop(start)
            assert self._auxiliary is not None
            self._auxiliary.advance(versions[start], delta.total, delta.clients)
        for start in update.dropped:
            del self.deltas.by_round[start]
        state = self._aggregator.optimizer_state() if self._teacher_rate == "server" and update.teachers else {}
        self.deltas.assign(update.version, update.teachers, state)
        return weights

    def _step(self, update: ServerUpdate, totals: Mapping[Part, Vector], versions: Mapping[int, Vector]) -> Vector:
        total, weights = totals.get(None), update.weights
        if update.boost is not None:
            total, weights = self._boosted(update, update.boost, totals)
        gradient = np.zeros(self._parameters, np.float32) if total is None else total[: self._parameters]
        if update.moves_to_clients:
            before = self._aggregator.weights()
            # a (w - w_client) = a (w - w_start) + a delta.
            for client_update, weight in zip(update.updates, update.weights, strict=True):
                start = versions[client_update.version][: self._parameters]
                gradient = gradient + np.float32(weight) * (before - start)
        if update.tier is not None and total is not None:
            return self._step_of_tier(update.tier, versions[update.updates[0].version], total)
        if update.keeps_delta:
            self.deltas.by_round[update.version - 1] = RoundDelta(
                gradient * np.float32(1 / update.weights[0]), len(update.updates)
            )
        if self._noise is not None:
            gradient = gradient + self._noise(update)
        if len(self._statistics) and total is not None:
            # Who has no example has no statistics either.
            trained = sum(weight for one, weight in zip(update.updates, weights, strict=True) if one.steps)
            self._statistics = moved_to_clients(self._statistics, total[self._parameters :], trained)
        return self._stepped(gradient)

    def _boosted(
        self, update: ServerUpdate, beta: float, totals: Mapping[Part, Vector]
    ) -> tuple[Vector | None, list[float]]:
        """The weighted sum of an update whose stale ones are boosted, None where nobody had an example, and the weights
        that made it, which sum to 1."""
        if not totals:
            return None, update.weights
        nothing = np.zeros_like(next(iter(totals.values())))  # the update of who has no example
        fresh = sum(not one.staleness for one in update.updates)
        staleness = [one.staleness for one in update.updates[fresh:]]
        stale = [totals.get(Alone(place), nothing) for place in range(fresh, len(update.updates))]
        total = totals.get(None, nothing).astype(np.float64)
        parameters = slice(self._parameters)  # running statistics tell nothing of what an update has to tell
        compared = [one[parameters] for one in stale]
        of_stale = weights_of_stale(staleness, compared, fresh, total[parameters], beta)
        sum_of_weights = fresh + sum(of_stale)
        for one, weight in zip(stale, of_stale, strict=True):
            total += weight * one.astype(np.float64)
        total /= sum_of_weights
        weights = [weight / sum_of_weights for weight in [1.0] * fresh + of_stale]
        return total.astype(np.float32), weights

    def _step_of_tier(self, step: TierStep, start: Vector, total: Vector) -> Vector:
        """To the mean of the tiers' models, one of which is the mean of its clients' now. Its statistics are theirs."""
        assert self._tiers is not None
        model = np.concatenate([start[: self._parameters] - total[: self._parameters], total[self._parameters :]])
        mean = self._tiers.advance(step, model)
        self._statistics = mean[self._parameters :]
        return self._stepped(self._aggregator.weights() - mean[: self._parameters])

    def _stepped(self, gradient: Vector) -> Vector:
        weights = self._beside_statistics(self._aggregator.step(gradient))
        if self._averages is not None:
            self._averages.add(weights)
        return weights

    def _weights(self) -> Vector:
        return self._beside_statistics(self._aggregator.weights())

    def _beside_statistics(self, parameters: Vector) -> Vector:
        return np.concatenate([parameters, self._statistics]) if len(self._statistics) else parameters

    def output(self) -> Vector:
        """A copy of the model to evaluate now."""
        if self._averages is not None:
            return self._averages.model()
        return self._weights() if self._auxiliary is None else self._auxiliary.model()

    def teacher(self, teacher: int, version: int, weights: Vector) -> Vector:
        """The teacher with this id of a client that starts from ``version``, whose ``weights`` are given: Algorithm 1
        line 7, float32 [parameters]."""
        mean = self.deltas.of_teachers[version][teacher].mean()
        if self._teacher_rate == "server":
            return self._aggregator.step_aside(weights, self.deltas.server[version], mean)
        assert isinstance(self._teacher_rate, float)
        return weights - np.float32(self._teacher_rate) * mean

    def state(self) -> State:
        """The global weights, the statistics, the optimiser's, the output model's and the tiers' state, for a
        checkpoint; without the deltas."""
        found = self._aggregator.state()
        if len(self._statistics):
            found |= {"statistics": self._statistics.copy()}
        for prefix, part in self._parts():
            found |= {prefix + name: value for name, value in part.state().items()}
        return found

    def restore(self, state: State) -> None:
        """Puts back what ``state()`` gave."""
        rest = dict(state)
        for prefix, part in self._parts():
            own = [name for name in rest if name.startswith(prefix)]
            part.restore({name.removeprefix(prefix): rest.pop(name) for name in own})
        if len(self._statistics):
            self._statistics = rest.pop("statistics").astype(np.float32)
        self._aggregator.restore(rest)

    def _parts(self) -> list[tuple[str, MovingAverage | AuxiliaryModel | TierModels]]:
        """What has a state beside the global weights, with what its names begin with."""
        parts = [("output_", self._averages), ("output_", self._auxiliary), ("tier_", self._tiers)]
        return [(prefix, part) for prefix, part in parts if part is not None]
