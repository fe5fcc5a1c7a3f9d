"""Synchronous rounds: FedAvg (McMahan et al. 2017), over-selection and deadlines (Bonawitz et al. 2019).

A round selects B_t clients uniformly without replacement, waits for the first B updates, and applies their weighted
mean; with B_t > B the slowest are told to stop when the round closes (Hard et al., sections 1 and 2.1).
"""

from typing import Literal

from pydantic import Field

from fedhpc.federation.schedulers.over_selecting import OverSelectingSettings
from fedhpc.federation.virtual_server import Participation, VirtualServer


class SynchronousSettings(OverSelectingSettings):
    """``deadline``: virtual seconds after which a round closes with what has arrived; nothing arrived, nothing
    changes."""

    scheduler: Literal["synchronous"]
    deadline: float | None = Field(None, gt=0)
    weighting: Literal["examples", "uniform"] = "examples"


class Synchronous:
    """One round at a time."""

    def __init__(self, settings: SynchronousSettings) -> None:
        self.settings = settings
        self.started: list[Participation] = []
        self.received: list[Participation] = []
        self.round = 0

    def begin(self, server: VirtualServer) -> None:
        self.round += 1
        self.received = []
        self.started = server.start(server.select(self.settings.selected))
        if self.settings.deadline is not None:
            server.set_timer(server.now + self.settings.deadline, self.round)

    def arrived(self, server: VirtualServer, update: Participation) -> None:
        self.received.append(update)
        if len(self.received) == self.settings.cohort:
            self.close(server)

    def timer(self, server: VirtualServer, round_of_timer: int) -> None:
        if round_of_timer == self.round:
            self.close(server)

    def close(self, server: VirtualServer) -> None:
        if len(self.received) < len(self.started):
            received = set(self.received)
            server.stop([update for update in self.started if update not in received])
        if self.received:
            server.aggregate(self.received, server.mean_weights(self.received, self.settings.weighting))
        self.begin(server)
