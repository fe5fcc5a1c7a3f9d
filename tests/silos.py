"""Federations whose clients' speeds are written down, and a list of what was asked of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.compass import Compass, CompassSettings
from fedhpc.federation.schedulers.tiered import Tiered, TieredSettings
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.optimizers import SGD

SGD_1 = SGD(name="sgd", rate=1.0)
CLIENT = ClientSettings(batch_size=1, steps=10, optimizer=SGD_1)

Speed = Callable[[int, int], float]
"""Seconds a step of (client, participation)."""


class ClientsTimes:
    """What a client takes by its speed alone; where nobody says how many steps, 10."""

    work_by_deadline = None
    deadline = None

    def __init__(self, speed: Speed, clients: int) -> None:
        self.speed, self.clients = speed, clients

    def of(self, client: int, participation: int, examples: int, steps: int | None = None) -> tuple[int, float]:
        steps = 10 if steps is None else steps
        return steps, steps * self.speed(client, participation)

    def profile(self) -> list[float]:
        return [self.speed(client, 0) for client in range(self.clients)]


@dataclass(kw_only=True)
class WatchedServer(VirtualServer):
    """``under_way``: the newest participation of each client."""

    under_way: dict[int, Participation] = field(default_factory=dict)

    def _set_out(self, update: Participation, steps: int | None) -> None:
        super()._set_out(update, steps)
        self.under_way[update.client] = update


class WatchedCompass(Compass):
    """``assigned``: (second, client, steps, group) of every assignment, to the microsecond. ``times``: T_a and T_max of
    every group."""

    def __init__(self, settings: CompassSettings) -> None:
        super().__init__(settings)
        self.assigned: list[tuple[float, int, int, int]] = []
        self.times: dict[int, tuple[float, float]] = {}

    def assign(self, server: Server, client: int) -> int:
        steps = super().assign(server, client)
        group = self.group_of[client]
        self.assigned.append((round(server.now, 6), client, steps, group.number))
        self.times[group.number] = round(group.expected, 6), round(group.latest, 6)
        return steps


def compass(
    speed: Speed | Sequence[float], budget: Budget, examples: Sequence[int] | int | None = None, **settings: Any
) -> tuple[WatchedServer, WatchedCompass]:
    """``speed``: of every participation of each client, or a function; then ``examples`` says how many clients there
    are. A client holds one example unless ``examples`` says otherwise."""
    made = {"min_steps": 2, "max_steps": 10, "mixing": 1.0, "weighting": "uniform", **settings}
    scheduler = WatchedCompass(CompassSettings(scheduler="compass", client=CLIENT, server_optimizer=SGD_1, **made))
    return _server(scheduler, speed, budget, examples), scheduler


def tiered(
    speed: Speed | Sequence[float], budget: Budget, examples: Sequence[int] | int | None = None, **settings: Any
) -> tuple[WatchedServer, Tiered]:
    """As ``compass``."""
    made = {"weighting": "uniform", **settings}
    scheduler = Tiered(TieredSettings(scheduler="tiered", client=CLIENT, server_optimizer=SGD_1, **made))
    return _server(scheduler, speed, budget, examples), scheduler


def _server(
    scheduler: Compass | Tiered, speed: Speed | Sequence[float], budget: Budget, examples: Sequence[int] | int | None
) -> WatchedServer:
    if not callable(speed):
        seconds = list(speed)
        examples = examples or len(seconds)
        return _server(scheduler, lambda client, participation: seconds[client], budget, examples)
    held = np.ones(examples, np.int64) if isinstance(examples, int) else np.array(examples)
    return WatchedServer(
        scheduler=scheduler,
        population=Population(held, np.zeros(len(held), bool)),
        client_time=ClientsTimes(speed, len(held)),  # type: ignore[arg-type]
        free=FreeClients(len(held), np.random.default_rng(0)),
        budget=budget,
        chance=np.random.default_rng(1),
    )
