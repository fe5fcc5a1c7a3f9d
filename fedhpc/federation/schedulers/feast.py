"""FeAST-on-MSG: asynchronous straggler training on mismatched and stale gradients (Hard et al. 2023, Algorithm 2).

Rounds as in FedAvg with over-selection, but the slow clients go on: what arrives within tau_max of its round's start is
added to the round's delta, by which an auxiliary model advances, round after round. That model is evaluated.
"""

from typing import Literal

from pydantic import Field, field_validator

from fedhpc.budget import Budget
from fedhpc.federation.moving_average import MovingAverageSettings
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.over_selecting import OverSelectingSettings
from fedhpc.federation.server import Scheduler, Server
from fedhpc.federation.updates import Participation
from fedhpc.optimizers import SGD, Optimizer


class FeastSettings(OverSelectingSettings):
    """``decay`` is beta, ``kappa`` is eta_a / eta_g, the auxiliary model's rate in terms of the server's. ``tau_max``:
    virtual seconds after its start at which a round is over for good; left out, it is when its last client has come.

    ``normalization``: the deltas' mean (equations 1 and 2), or their sum, which the paper's tuned rates fit.
    """

    scheduler: Literal["feast"]
    decay: float = Field(ge=0, lt=1)
    kappa: float = Field(ge=0, le=1)
    tau_max: float | None = Field(None, gt=0)
    normalization: Literal["mean", "sum"] = "mean"
    weighting: Literal["uniform"] = "uniform"
    ema: MovingAverageSettings | None = None

    @field_validator("server_optimizer")
    @classmethod
    def _is_plain(cls, optimizer: Optimizer) -> Optimizer:
        if not isinstance(optimizer, SGD) or optimizer.momentum or optimizer.weight_decay:
            raise ValueError("name: FeAST's auxiliary model follows plain sgd; name sgd with a rate alone")
        return optimizer

    @field_validator("ema")
    @classmethod
    def _is_an_average_already(cls, ema: MovingAverageSettings | None) -> None:
        if ema is not None:
            raise ValueError("FeAST's auxiliary model is what is evaluated; leave ema out and give decay")

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        found = super().mistakes(population, budget)
        if self.tau_max is None:
            return found
        if self.selected == self.cohort:
            found.append(
                f"tau_max: {self.tau_max:g} can never matter, every round waits for all its clients; leave it out or "
                "give an over_selection above the cohort"
            )
        elif budget.virtual_seconds is not None and self.tau_max >= budget.virtual_seconds:
            found.append(
                f"tau_max: {self.tau_max:g} can never matter, the budget ends at {budget.virtual_seconds:g} virtual "
                "seconds; lower it or leave it out"
            )
        return found


class Feast(Scheduler):
    """Server side; lines are Algorithm 2's."""

    def __init__(self, settings: FeastSettings) -> None:
        self.settings = settings
        self.started: list[Participation] = []
        self.received: list[Participation] = []
        self.under_way: dict[int, dict[int, Participation]] = {}
        """Of each round that is not yet taken by the auxiliary model, in order, the updates that may still come."""
        self.elapsed = -1
        """The last round whose tau_max passed before its server update."""

    def begin(self, server: Server) -> None:
        self.received = []
        count = min(self.settings.selected, server.free.count)
        self.started = server.start(server.select(count))  # line 3
        server.open_round()
        self.under_way[server.version] = {update.number: update for update in self.started}
        if self.settings.tau_max is not None:
            server.set_timer(server.now + self.settings.tau_max, server.version, is_deadline=False)

    def arrived(self, server: Server, update: Participation) -> None:
        del self.under_way[update.version][update.number]
        if update.version < server.version:
            server.add_late(update, counts=True)  # lines 13-14
            self.advance(server)
            return
        self.received.append(update)
        if len(self.received) == self.settings.cohort:
            self.close(server)

    def timer(self, server: Server, start: int) -> None:
        if start == server.version:
            self.elapsed = start
        else:
            self.give_up(server, start)
            self.advance(server)

    def close(self, server: Server) -> None:
        start, cohort = server.version, self.settings.cohort
        if start == self.elapsed:
            self.give_up(server, start)
        self.advance(server)
        weight = 1 / cohort if self.settings.normalization == "mean" else 1.0
        server.aggregate(self.received, [weight] * cohort, keeps_delta=True)  # line 10
        self.begin(server)

    def give_up(self, server: Server, start: int) -> None:
        """Line 12: tau_max has passed."""
        late = self.under_way.get(start, {})
        server.give_up(list(late.values()))
        late.clear()

    def advance(self, server: Server) -> None:
        """Lines 16-17, in the order of rounds: those that are over for good, up to the first that is not."""
        while self.under_way:
            start = next(iter(self.under_way))
            if self.under_way[start]:
                return
            del self.under_way[start]
            server.close_round(start)

    def lost(self, server: Server, update: Participation) -> None:
        raise AssertionError("FeAST-on-MSG has virtual clients only, and those are never lost")
