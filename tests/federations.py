"""Federations for tests: the engine in this process, and a plain reference to compare it with."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.work import Answer, Evaluate, ShardCounts, Train, Work
from fedhpc.data.federated import FederatedData, open_prepared
from fedhpc.data.preparation import prepare
from fedhpc.experiment import Run, RunSettings, load_experiment
from fedhpc.federation.aggregation import Aggregator
from fedhpc.federation.engine import Engine
from fedhpc.federation.recorder import Recorder
from fedhpc.federation.schedule import make_schedule
from fedhpc.ranks.mailbox import Rest
from fedhpc.ranks.pool import OwnRank, TrainingRanks
from fedhpc.task import Classification


@dataclass
class Federation:
    """A run's settings and data, ready to be lived through again and again."""

    settings: RunSettings
    data: FederatedData

    @classmethod
    def of(cls, file: Path, algorithm: str, scenario: str = "domain", trial: int = 0) -> "Federation":
        experiment = load_experiment(file)
        assert isinstance(experiment.task, Classification)
        prepared = prepare(experiment.task, experiment.seed, file.parent, file.parent / "data")
        return cls(experiment.settings_of(Run(algorithm, scenario, trial)), open_prepared(prepared))

    def training(self) -> LocalTraining:
        torch.set_num_threads(1)
        settings = self.settings
        assert isinstance(settings.task, Classification)
        return LocalTraining(settings.task.model, settings.algorithm.client, self.data, settings.seed, settings.trial)

    def engine(
        self,
        others: "Ranks | None" = None,
        pulse: Callable[[Engine], None] = lambda engine: None,
        own: "Own | None" = None,
    ) -> Engine:
        training = self.training()
        initial = training.initial_weights()
        return Engine(
            make_schedule(self.settings, self.data.population),
            Recorder(self.settings.evaluation),
            Aggregator(self.settings.algorithm.server_optimizer, initial),
            own or Own(training),
            others or TrainingRanks(None, len(initial)),
            Rest(),
            training.shards,
            pulse,
        )


class Own(OwnRank):
    """Rank 0's training, with a list of what it did."""

    def __init__(self, training: LocalTraining) -> None:
        super().__init__(training)
        self.done: list[Work] = []

    def do(self, work: Work, weights: np.ndarray, between_steps: Callable[[], None]) -> Answer:
        self.done.append(work)
        return super().do(work, weights, between_steps)


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

    def give(self, rank: int, work: Work, weights: np.ndarray) -> None:
        assert work.version not in self.forgotten
        self.given.append(work)
        self._under_way.append((rank, OwnRank(self.training).do(work, weights, lambda: None)))

    def forget(self, version: int) -> None:
        self.forgotten.add(version)

    def answers(self) -> list[Answer]:
        self.random.shuffle(self._under_way)
        back = [self._under_way.pop()[1] for _ in range(self.random.randrange(len(self._under_way) + 1))]
        return back


Evaluations = dict[int, list[ShardCounts]]


def reference(federation: Federation) -> tuple[np.ndarray, Evaluations, int]:
    """The final weights, the evaluated versions' counts, and how many client updates were trained.

    Every client update is computed when its server update comes, in the schedule's order, with all versions kept."""
    training = federation.training()
    aggregator = Aggregator(federation.settings.algorithm.server_optimizer, training.initial_weights())
    recorder = Recorder(federation.settings.evaluation)
    versions, evaluations, trained = [aggregator.weights()], {}, 0
    for update in make_schedule(federation.settings, federation.data.population).server_updates():
        if update.version:
            deltas, weights = [], []
            for participation, weight in zip(update.updates, update.weights, strict=True):
                start = versions[participation.version]
                key = (participation.client, participation.participation, participation.steps)
                deltas.append(training.client_update(start, *key, lambda: None))
                weights.append(weight)
                trained += 1
            versions.append(aggregator.step(deltas, weights))
        if recorder.observe(update):
            evaluations[update.version] = [training.evaluate(versions[-1], shard) for shard in range(training.shards)]
    last = recorder.finish()
    if last is not None:
        evaluations[last] = [training.evaluate(versions[-1], shard) for shard in range(training.shards)]
    return versions[-1], evaluations, trained


def trained(work: list[Work]) -> list[Train]:
    """The client updates among the work."""
    return [piece for piece in work if not isinstance(piece, Evaluate)]
