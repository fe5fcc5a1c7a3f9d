"""FedAT: clients of like speed in tiers, each at its own pace (Chai et al. 2021; FedCompass, section 5.1).

All clients always train, in tiers of like speed. Within a tier rounds are synchronous: when all its clients have come,
the tier's model is the mean of theirs, and they begin again from the new global model. That is a mean of the tiers'
models in which the slowest tier weighs as often as the fastest has updated, and so on: slow tiers are not outvoted.

Tiers are a forecast (law 1): they are known at the beginning, from one time a step of each client, as it would be
measured before virtual second 0. They stay when speeds change.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator

from fedhpc.federation.schedulers.everybody import EverybodySettings
from fedhpc.federation.server import Scheduler, Server
from fedhpc.federation.updates import Participation, TierStep
from fedhpc.optimizers import SGD, Optimizer


class TieredSettings(EverybodySettings):
    """``speed_ratio`` is v: a client is in a tier if its time a step is at most v times that of the tier's fastest.
    ``weighting`` is that of a tier's clients in its model."""

    scheduler: Literal["tiered"]
    speed_ratio: float = Field(ge=1, le=1e15)

    @field_validator("server_optimizer")
    @classmethod
    def _takes_the_model_as_it_is(cls, optimizer: Optimizer) -> Optimizer:
        if not isinstance(optimizer, SGD) or optimizer.rate != 1 or optimizer.momentum or optimizer.weight_decay:
            raise ValueError("name: FedAT's global model is a mean of its tiers'; name sgd with rate 1.0 alone")
        return optimizer


def tiers_of(seconds: Sequence[float], ratio: float) -> list[list[int]]:
    """The clients of each tier, the fastest tier and in it the fastest client first. ``seconds``: each client's time a
    step."""
    tiers: list[list[int]] = []
    for client in sorted(range(len(seconds)), key=seconds.__getitem__):
        if not tiers or seconds[client] > ratio * seconds[tiers[-1][0]]:
            tiers.append([])
        tiers[-1].append(client)
    return tiers


class Tiered(Scheduler):
    """Server side."""

    def __init__(self, settings: TieredSettings) -> None:
        self.settings = settings
        self.tiers: list[list[int]] = []
        self.tier_of: dict[int, int] = {}
        self.received: list[list[Participation]] = []
        """Of each tier, this round's updates."""
        self.counts: list[int] = []
        """T_m: the updates that each tier has made."""

    def begin(self, server: Server) -> None:
        server.free.take_everybody()
        self.tiers = tiers_of(server.profile(), self.settings.speed_ratio)
        self.received = [[] for _ in self.tiers]
        self.counts = [0] * len(self.tiers)
        for tier, clients in enumerate(self.tiers):
            self.tier_of |= dict.fromkeys(clients, tier)
            server.start(clients)

    def arrived(self, server: Server, update: Participation) -> None:
        tier = self.tier_of[update.client]
        self.received[tier].append(update)
        self.close_if_complete(server, tier)

    def timer(self, server: Server, token: int) -> None:
        raise AssertionError("FedAT sets no timer")

    def lost(self, server: Server, update: Participation) -> None:
        """The client of this participation will not be heard of again: its tier goes on without it. A tier without
        clients keeps its model."""
        tier = self.tier_of[update.client]
        self.tiers[tier].remove(update.client)
        if self.tiers[tier]:
            self.close_if_complete(server, tier)

    def close_if_complete(self, server: Server, tier: int) -> None:
        received = self.received[tier]
        if len(received) < len(self.tiers[tier]):
            return
        self.counts[tier] += 1
        # T_(M + 1 - m) / T of tier m.
        shares = [count / sum(self.counts) for count in reversed(self.counts)]
        weights = server.mean_weights(received, self.settings.weighting)
        server.aggregate(received, weights, tier=TierStep(tier, shares))
        self.received[tier] = []
        server.start(self.tiers[tier])
