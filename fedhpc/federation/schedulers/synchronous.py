"""Synchronous rounds: FedAvg (McMahan et al. 2017), over-selection and deadlines (Bonawitz et al. 2019).

A round selects B_t clients without replacement, waits for the first B updates, and applies their weighted
mean; with B_t > B the slowest are told to stop when the round closes (Hard et al., sections 1 and 2.1). Clients who can
do nothing by the scenario's deadline take no part in it (FedCore, section 6.1).
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from fedhpc.budget import Budget
from fedhpc.federation.population import Population
from fedhpc.federation.privacy_settings import PrivacySettings
from fedhpc.federation.schedulers.over_selecting import OverSelectingSettings
from fedhpc.federation.server import Scheduler, Server
from fedhpc.federation.updates import Participation, ScheduleError

_SELECTIONS_WITHOUT_ANYBODY = 10_000


class SynchronousSettings(OverSelectingSettings):
    """``deadline``: virtual seconds after which a round closes with what has arrived; nothing arrived, nothing
    changes. ``selection``: every free client with the same probability, or with one proportional to the examples that
    it holds (FedCore, Algorithm 1, line 3)."""

    HAS_ROUNDS: ClassVar[bool] = True

    scheduler: Literal["synchronous"]
    deadline: float | None = Field(None, gt=0)
    selection: Literal["uniform", "by_examples"] = "uniform"
    weighting: Literal["examples", "uniform"] = "examples"

    @field_validator("privacy")
    @classmethod
    def _who_takes_part_is_not_told(
        cls, privacy: PrivacySettings | None, others: ValidationInfo
    ) -> PrivacySettings | None:
        client = others.data.get("client")
        if privacy is not None and client is not None and client.within_deadline is not None:
            raise ValueError(
                "privacy: client.within_deadline leaves out clients by their speed, which the privacy is not counted "
                "for; leave one of them out"
            )
        return privacy

    @field_validator("selection")
    @classmethod
    def _privacy_draws_uniformly(cls, selection: str, others: ValidationInfo) -> str:
        if selection != "uniform" and others.data.get("privacy") is not None:
            raise ValueError(f"{selection} is not what privacy is counted for; name uniform, or leave privacy out")
        return selection

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        found = super().mistakes(population, budget)
        holders = int(np.count_nonzero(population.examples))
        if self.selection == "by_examples" and holders < self.selected <= len(population):
            found.append(
                f"selection: by_examples draws clients who hold an example, and of {self.selected} wanted there are "
                f"{holders}; lower cohort, or name uniform"
            )
        return found

    @property
    def largest_weight(self) -> float:
        """That of every update, where they weigh alike."""
        return 1 / self.cohort

    @property
    def samples(self) -> bool:
        """Whether a round starts every client with one probability, ``cohort`` of them on average, rather than so many
        (Poisson sampling, which DP-SGD counts on)."""
        return self.privacy is not None and self.privacy.mechanism == "dp_sgd"


class Synchronous(Scheduler):
    """One round at a time."""

    def __init__(self, settings: SynchronousSettings) -> None:
        self.settings = settings
        self.started: list[Participation] = []
        self.received: list[Participation] = []
        self.awaited = 0
        self.round = 0

    def begin(self, server: Server) -> None:
        self.round += 1
        self.received = []
        self.started = self.start(server)
        everybody = len(self.started)
        self.awaited = everybody if self.settings.samples else min(self.settings.cohort, everybody)
        if self.settings.deadline is not None:
            server.set_timer(server.now + self.settings.deadline, self.round)

    def start(self, server: Server) -> list[Participation]:
        """Those of the selected who can do something by the scenario's deadline; selected anew where nobody can."""
        for _ in range(_SELECTIONS_WITHOUT_ANYBODY):
            if started := server.start(self.select(server)):
                return started
        raise ScheduleError(
            f"{_SELECTIONS_WITHOUT_ANYBODY:,} selections in a row had no client that can do its work by the deadline; "
            "lower the scenario's straggler_percent, or raise cohort"
        )

    def select(self, server: Server) -> list[int]:
        if not self.settings.samples:
            return server.select(self.settings.selected)
        while not (clients := server.free.sample(self.settings.cohort / len(server.population))):
            server.aggregate([], [])  # its noise alone: that nobody was there is not to be seen
        return clients

    def arrived(self, server: Server, update: Participation) -> None:
        self.received.append(update)
        if len(self.received) == self.awaited:
            self.close(server)

    def timer(self, server: Server, round_of_timer: int) -> None:
        if round_of_timer == self.round:
            self.close(server)

    def lost(self, server: Server, update: Participation) -> None:
        """The round goes on with the others."""
        self.started.remove(update)
        self.awaited = min(self.awaited, len(self.started))
        if len(self.received) == self.awaited:
            self.close(server)

    def close(self, server: Server) -> None:
        if len(self.received) < len(self.started):
            received = set(self.received)
            server.stop([update for update in self.started if update not in received])
        if self.received:
            server.aggregate(self.received, self.weights(server))
        self.begin(server)

    def weights(self, server: Server) -> list[float]:
        if self.settings.samples:
            return [self.settings.largest_weight] * len(self.received)
        return server.mean_weights(self.received, self.settings.weighting)
