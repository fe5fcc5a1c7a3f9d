"""FARe-DUST: asynchronous regularisation with distillation using stale teachers (Hard et al. 2023, Algorithm 1).

Rounds as in FedAvg with over-selection, but the slow clients go on: a delta that comes late is added to the delta of
its own round, of which the last k are kept. Clients are distilled from teachers that such a delta makes of the newest
model.
"""

from collections import deque
from typing import Literal

from pydantic import Field, field_validator

from fedhpc.budget import Budget
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.over_selecting import OverSelectingSettings
from fedhpc.federation.server import Scheduler, Server
from fedhpc.federation.updates import Participation


class FareDustSettings(OverSelectingSettings):
    """``histories`` is k, the deltas that are kept. ``teacher_rate`` is the rate of the step from the newest model to a
    teacher (line 7): plain SGD's, or ``server``: the step that the server's optimiser would take, which leaves it as it
    is. The distillation's strength rho is ``client.distillation``; what is evaluated is the ``ema`` of the model.
    """

    scheduler: Literal["fare_dust"]
    histories: int = Field(ge=1)
    teacher_rate: float | Literal["server"] = "server"
    weighting: Literal["uniform"] = "uniform"

    @field_validator("teacher_rate")
    @classmethod
    def _moves(cls, rate: float | str) -> float | str:
        if isinstance(rate, float) and not 0 < rate <= 1e30:
            raise ValueError("give a rate above 0, or server")
        return rate

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        found = super().mistakes(population, budget)
        rounds = budget.most_rounds(self.cohort)
        if rounds is not None and self.histories > rounds:
            found.append(
                f"histories: {self.histories} can never matter, the budget ends after {rounds:,} rounds; lower it to "
                f"{rounds:,} or less, or raise the budget"
            )
        if not self.client.distillation:
            found.append("client.distillation: is 0, so that no teacher is ever used; give FARe-DUST's rho")
        return found


class FareDust(Scheduler):
    """Server side; lines are Algorithm 1's."""

    def __init__(self, settings: FareDustSettings) -> None:
        self.settings = settings
        self.started: list[Participation] = []
        self.received: list[Participation] = []
        self.deltas: deque[int] = deque()
        """The rounds whose deltas are kept, by the version that they started from."""
        self.under_way: dict[int, dict[int, Participation]] = {}
        """Of a kept round, the updates that are still to come."""

    def begin(self, server: Server) -> None:
        self.received = []
        clients = server.select(min(self.settings.selected, server.free.count))  # line 3
        teachers = [self.draw_teacher(server) for _ in clients]  # line 6, for every client anew
        self.started = server.start(clients, teachers)  # lines 7-8

    def draw_teacher(self, server: Server) -> int | None:
        return self.deltas[server.chance.integers(len(self.deltas))] if self.deltas else None

    def arrived(self, server: Server, update: Participation) -> None:
        if update.version < server.version:
            del self.under_way[update.version][update.number]
            server.add_late(update, counts=False)  # lines 18-20
            return
        self.received.append(update)
        if len(self.received) == self.settings.cohort:
            self.close(server)

    def close(self, server: Server) -> None:
        start, came = server.version, set(self.received)
        cohort = self.settings.cohort
        server.aggregate(self.received, [1 / cohort] * cohort, keeps_delta=True)  # line 15
        self.deltas.append(start)  # line 17
        self.under_way[start] = {update.number: update for update in self.started if update not in came}
        if len(self.deltas) > self.settings.histories:  # lines 21-24
            oldest = self.deltas.popleft()
            server.give_up(list(self.under_way.pop(oldest).values()))
            server.drop_delta(oldest)
        self.begin(server)

    def timer(self, server: Server, token: int) -> None:
        raise AssertionError("FARe-DUST sets no timer")

    def lost(self, server: Server, update: Participation) -> None:
        raise AssertionError("FARe-DUST has virtual clients only, and those are never lost")
