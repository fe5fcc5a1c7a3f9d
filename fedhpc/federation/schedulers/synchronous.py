"""Synchronous rounds: FedAvg (McMahan et al. 2017), over-selection and deadlines (Bonawitz et al. 2019).

A round selects B_t clients uniformly without replacement, waits for the first B updates, and applies their weighted
mean; with B_t > B the slowest are told to stop when the round closes (Hard et al., sections 1 and 2.1).
"""

from typing import Literal

from pydantic import Field

from fedhpc.federation.schedulers.over_selecting import OverSelectingSettings
from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation


class SynchronousSettings(OverSelectingSettings):
    """``deadline``: virtual seconds after which a round closes with what has arrived; nothing arrived, nothing
    changes."""

    scheduler: Literal["synchronous"]
    deadline: float | None = Field(None, gt=0)
    weighting: Literal["examples", "uniform"] = "examples"

    @property
    def largest_weight(self) -> float:
        """That of every update, where they weigh alike."""
        return 1 / self.cohort

    @property
    def samples(self) -> bool:
        """Whether a round starts every client with one probability, ``cohort`` of them on average, rather than so many
        (Poisson sampling, which DP-SGD counts on)."""
        return self.privacy is not None and self.privacy.mechanism == "dp_sgd"


class Synchronous:
    """One round at a time."""

    def __init__(self, settings: SynchronousSettings) -> None:
        self.settings = settings
        self.started: list[Participation] = []
        self.received: list[Participation] = []
        self.round = 0

    def begin(self, server: Server) -> None:
        self.round += 1
        self.received = []
        self.started = server.start(self.select(server))
        if self.settings.deadline is not None:
            server.set_timer(server.now + self.settings.deadline, self.round)

    def select(self, server: Server) -> list[int]:
        if not self.settings.samples:
            return server.select(self.settings.selected)
        while not (clients := server.free.sample(self.settings.cohort / len(server.population))):
            server.aggregate([], [])  # its noise alone: that nobody was there is not to be seen
        return clients

    def arrived(self, server: Server, update: Participation) -> None:
        self.received.append(update)
        self.close_if_complete(server)

    def timer(self, server: Server, round_of_timer: int) -> None:
        if round_of_timer == self.round:
            self.close(server)

    def lost(self, server: Server, update: Participation) -> None:
        """The round goes on with the others."""
        self.started.remove(update)
        self.close_if_complete(server)

    def close_if_complete(self, server: Server) -> None:
        wanted = len(self.started) if self.settings.samples else min(self.settings.cohort, len(self.started))
        if len(self.received) == wanted:
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
