"""Federations for tests: the engine in this process, and a plain reference to compare it with."""

import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.objective import Objective
from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Answer, Evaluate, Member, ShardCounts, Train, Work
from fedhpc.data.federated import FederatedData, open_prepared
from fedhpc.data.preparation import prepare
from fedhpc.experiment import Run, RunSettings, load_experiment
from fedhpc.federation.aggregation import Aggregator
from fedhpc.federation.engine import Engine
from fedhpc.federation.recorder import Recorder
from fedhpc.federation.schedule import make_schedule
from fedhpc.federation.schedulers.fare_dust import FareDustSettings
from fedhpc.federation.schedulers.feast import FeastSettings
from fedhpc.federation.schedulers.tiered import TieredSettings
from fedhpc.federation.server_model import ServerModel
from fedhpc.federation.updates import Participation
from fedhpc.ranks.mailbox import Rest
from fedhpc.ranks.pool import OwnRank, TrainingRanks
from fedhpc.task import Learning

DENSE = StepChoice(form="dense")


@dataclass
class Federation:
    """A run's settings and data, ready to be lived through again and again."""

    settings: RunSettings
    data: FederatedData
    choice: StepChoice = DENSE

    @classmethod
    def of(cls, file: Path, algorithm: str, scenario: str = "domain", trial: int = 0) -> "Federation":
        experiment = load_experiment(file)
        assert isinstance(experiment.task, Learning)
        prepared = prepare(experiment.task, experiment.seed, file.parent, file.parent / "data")
        return cls(experiment.settings_of(Run(algorithm, scenario, trial)), open_prepared(prepared))

    def training(self) -> LocalTraining:
        settings = self.settings
        assert isinstance(settings.task, Learning)
        model, client, reads_losses = settings.task.model, settings.algorithm.client, settings.algorithm.reads_losses
        prepare_device(self.choice, client.precision)
        return LocalTraining(
            model,
            client,
            self.data,
            settings.seed,
            settings.trial,
            self.choice,
            objective=Objective.of(settings.task),
            measures_losses=reads_losses,
        )

    def engine(
        self,
        others: "Ranks | None" = None,
        pulse: Callable[[Engine], None] = lambda engine: None,
        own: "Own | None" = None,
        is_target: Callable[[Sequence[ShardCounts]], bool] | None = None,
    ) -> Engine:
        training = self.training()
        initial = training.initial_weights()
        return Engine(
            make_schedule(self.settings, self.data.population),
            Recorder(self.settings.evaluation),
            ServerModel(self.settings.algorithm, initial, statistics=training.statistics),
            own or Own(training),
            others or TrainingRanks(None),
            Rest(),
            training.shards,
            self.choice.clients,
            pulse,
            is_target,
        )


class Own(OwnRank):
    """Rank 0's training, with a list of what it did."""

    def __init__(self, training: LocalTraining) -> None:
        super().__init__(training)
        self.done: list[Work] = []

    def do(self, work: Work, versions: Mapping[int, np.ndarray], between_steps: Callable[[], None]) -> Answer:
        self.done.append(work)
        return super().do(work, versions, between_steps)


@dataclass
class Ranks:
    """Three ranks that answer late and in any order, as ``random`` has it."""

    training: LocalTraining
    random: random.Random
    given: list[Work] = field(default_factory=list)
    forgotten: set[int] = field(default_factory=set)
    _under_way: list[tuple[int, Answer]] = field(default_factory=list)

    def next_free(self, *, must_be_idle: bool) -> int | None:
        free = [rank for rank in (1, 2, 3) if sum(1 for at, _ in self._under_way if at == rank) < 2]
        return self.random.choice(free) if free and self.random.random() < 0.8 else None

    def give(self, rank: int, work: Work, versions: Mapping[int, np.ndarray]) -> None:
        assert self.forgotten.isdisjoint(work.versions)
        self.given.append(work)
        self._under_way.append((rank, OwnRank(self.training).do(work, versions, lambda: None)))

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def forget(self, version: int) -> None:
        self.forgotten.add(version)

    def answers(self) -> list[Answer]:
        self.random.shuffle(self._under_way)
        back = [self._under_way.pop()[1] for _ in range(self.random.randrange(len(self._under_way) + 1))]
        return back


Evaluations = dict[int, list[ShardCounts]]


def reference(federation: Federation) -> tuple[np.ndarray, Evaluations, int]:
    """The final weights, the evaluated versions' counts, and how many client updates were trained.

    Every client update is computed by itself when its server update comes, with all versions kept: those that start
    from the version just before it last, and of these and of the others those with coresets first, then the longest."""
    training = federation.training()
    aggregator = Aggregator(federation.settings.algorithm.server_optimizer, training.initial_weights())
    recorder = Recorder(federation.settings.evaluation)
    versions, evaluations, trained = [aggregator.weights()], {}, 0
    for update in make_schedule(federation.settings, federation.data.population).server_updates():
        if update.version:
            pairs = list(zip(update.updates, update.weights, strict=True))
            newest = update.version - 1
            pairs.sort(key=lambda pair: (pair[0].version == newest, not pair[0].coreset, -pair[0].steps))
            total = np.zeros_like(versions[0])
            for update_of, weight in pairs:
                start = {update_of.version: versions[update_of.version]}
                member = Member(
                    update_of.version,
                    update_of.client,
                    update_of.participation,
                    update_of.steps,
                    weight,
                    coreset=update_of.coreset,
                    whole_epochs=update_of.whole_epochs,
                )
                total += training.update(start, [member], lambda: None)
                trained += 1
            versions.append(aggregator.step(total))
        if recorder.observe(update):
            evaluations[update.version] = [training.evaluate(versions[-1], shard) for shard in range(training.shards)]
    last = recorder.finish()
    if last is not None:
        evaluations[last] = [training.evaluate(versions[-1], shard) for shard in range(training.shards)]
    return versions[-1], evaluations, trained


def by_the_papers(federation: Federation) -> tuple[np.ndarray, Evaluations]:
    """The last version's output model and the evaluations of a federation whose late updates count (Hard et al. 2023,
    Algorithms 1 and 2) or are boosted (Abdelmoniem et al. 2021), that moves to its clients' models (Xie et al. 2019) or
    to its tiers' (Chai et al. 2021), computed plainly in float64: every delta by itself, everything kept."""
    settings, training = federation.settings.algorithm, federation.training()
    initial = training.initial_weights()
    optimizer = Aggregator(settings.server_optimizer, initial)
    recorder = Recorder(federation.settings.evaluation)
    versions: list[np.ndarray] = []
    rounds: dict[int, list[np.ndarray]] = {}
    teachers: dict[int, np.ndarray] = {}
    averages, auxiliary = [initial.astype(float)], initial.astype(float)
    of_tiers: list[list[np.ndarray]] = []
    evaluations = {}

    schedule = make_schedule(federation.settings, federation.data.population)
    schedule.losses = {}

    def delta(one: Participation) -> np.ndarray:
        if not one.steps:
            schedule.losses[one.client, one.participation] = 0.0
            return np.zeros(len(initial))
        vectors = {one.version: versions[one.version], **teachers}
        vectors |= {} if one.teacher < 0 else {one.teacher: versions[one.teacher]}
        member = Member(one.version, one.client, one.participation, one.steps, 1.0, one.teacher)
        found = training.update(vectors, [member], lambda: None).astype(float)
        if training.losses:
            (schedule.losses[one.client, one.participation],) = training.losses
        return found

    for update in schedule.server_updates():
        for late in update.late:
            rounds[late.version].append(delta(late))
        if update.version:
            deltas = [delta(one) for one in update.updates]
            weights = update.weights
            if update.boost is not None:
                weights = relays_weights([one.staleness for one in update.updates], deltas, update.boost)
            gradient = sum(weight * one for weight, one in zip(weights, deltas, strict=True))
            if update.moves_to_clients:
                (one,), (mixing,), newest = update.updates, update.weights, versions[-1].astype(float)
                gradient = mixing * (newest - (versions[one.version] - deltas[0]))
            if isinstance(settings, TieredSettings):
                assert update.tier is not None
                tiers = len(update.tier.shares)
                of_tiers = of_tiers or [[] for _ in range(tiers)]
                ends = [versions[one.version] - moved for one, moved in zip(update.updates, deltas, strict=True)]
                held = [one.examples for one in update.updates]
                of_tiers[update.tier.tier].append(np.average(ends, axis=0, weights=held))
                newest = [models[-1] if models else initial for models in of_tiers]
                counts = [len(models) for models in of_tiers]
                mean = sum(counts[tiers - 1 - tier] * newest[tier] for tier in range(tiers)) / sum(counts)
                gradient = versions[-1] - mean
            versions.append(optimizer.step(gradient.astype(np.float32)))
            if isinstance(settings, FareDustSettings | FeastSettings):
                rounds[update.version - 1] = deltas
        else:
            versions.append(initial)
        if settings.ema is not None and update.version:
            averages.append(settings.ema.decay * averages[-1] + (1 - settings.ema.decay) * versions[-1])
        if isinstance(settings, FeastSettings):
            for start in update.closed:
                mean = sum(rounds[start]) / len(rounds[start])
                plus = versions[start] - settings.server_optimizer.rate * mean
                moved = auxiliary - settings.kappa * settings.server_optimizer.rate * mean
                auxiliary = settings.decay * moved + (1 - settings.decay) * plus
        for teacher, start in update.teachers.items():
            aside = deepcopy(optimizer)
            teachers[teacher] = aside.step((sum(rounds[start]) / len(rounds[start])).astype(np.float32))
        output = versions[-1] if settings.ema is None else averages[-1]
        output = (auxiliary if isinstance(settings, FeastSettings) else output).astype(np.float32)
        if recorder.observe(update):
            evaluations[update.version] = [training.evaluate(output, shard) for shard in range(training.shards)]
    last = recorder.finish()
    if last is not None:
        evaluations[last] = [training.evaluate(output, shard) for shard in range(training.shards)]
    return output, evaluations


def relays_weights(staleness: list[int], deltas: list[np.ndarray], beta: float) -> list[float]:
    """The final coefficients of RELAY's equation 2, as the paper writes it; of stale updates alone those of DynSGD."""
    fresh = [delta for delta, tau in zip(deltas, staleness, strict=True) if tau == 0]
    n, lambdas = len(fresh), [0.0] * len(deltas)
    if n and (mean := sum(fresh) / n).any():
        away = [np.linalg.norm(mean - (one + n * mean) / (n + 1)) / np.linalg.norm(mean) for one in deltas]
        lambdas = [one**2 if tau else 0.0 for one, tau in zip(away, staleness, strict=True)]
    beta, most = beta if n else 0.0, max(lambdas)
    boosts = [1 - np.exp(-one / most) if most > 0 else 0.0 for one in lambdas]
    weights = [
        1.0 if tau == 0 else (1 - beta) / (tau + 1) + beta * boost for tau, boost in zip(staleness, boosts, strict=True)
    ]
    return [weight / sum(weights) for weight in weights]


def trained(work: list[Work]) -> list[Train]:
    """The client updates among the work."""
    return [piece for piece in work if not isinstance(piece, Evaluate)]


def alone(training: LocalTraining, weights: np.ndarray, client: int, participation: int, steps: int) -> np.ndarray:
    """One client's delta."""
    return training.update({0: weights}, [Member(0, client, participation, steps, 1.0)], lambda: None)
