"""Stale synchronous FedAvg: rounds whose late updates are still used (RELAY: Abdelmoniem et al. 2021, section 4).

A round starts clients among those that are online and ends when enough of their updates have come (OC) or at its
deadline (DL; section 5.1). Late clients go on; what has come of earlier rounds by a round's end is aggregated with the
fresh updates, weighing less or as much (section 4.2.4). Where all are started it is SAFA as section 2.2 has it, and
without late updates FedAvg, whose late clients finish in vain (section 2.1).

A client that goes offline before its upload drops out. A round of which nothing came is over without a server update,
and the next one tries again; while nobody can be selected, the server waits.
"""

import math
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from fedhpc.budget import Budget
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.settings import AlgorithmSettings
from fedhpc.federation.selectors import Selection, make_selector
from fedhpc.federation.selectors.by_examples import ByExamplesSettings
from fedhpc.federation.selectors.everybody import EverybodySelection
from fedhpc.federation.selectors.oort import OortSettings
from fedhpc.federation.selectors.priority import PrioritySettings
from fedhpc.federation.selectors.selector import Wanted
from fedhpc.federation.selectors.uniform import UniformSettings
from fedhpc.federation.server import Scheduler, Server
from fedhpc.federation.updates import Participation
from fedhpc.settings import Settings

_BETA = 0.35
_ALPHA = 0.25
_BEGIN = 0
"""The token of the timers at which a round may begin; deadlines have their rounds', which count from 1."""
_ROUNDING = 1e-9


class StaleSettings(Settings):
    """How late updates weigh, whose staleness is tau, beside fresh ones, who weigh 1 (section 4.2.4): 1 (``equal``),
    1 / (tau + 1) (``dynsgd``), e^-(tau + 1) (``adasgd``), or by equation 2 with ``beta`` (``relay``, by default 0.35).
    Updates that would be staler than the ``threshold`` are given up; without one, none is."""

    weighting: Literal["equal", "dynsgd", "adasgd", "relay"]
    beta: float | None = Field(None, ge=0, le=1)
    threshold: int | None = Field(None, ge=1, le=10**9)

    @model_validator(mode="after")
    def _beta_is_relays(self) -> "StaleSettings":
        if self.beta is not None and self.weighting != "relay":
            raise ValueError(f"beta: is of equation 2, and weighting {self.weighting} has none; leave it out")
        return self

    @property
    def boost(self) -> float | None:
        """Beta of equation 2, where that is the rule."""
        if self.weighting != "relay":
            return None
        return _BETA if self.beta is None else self.beta

    def weight(self, staleness: int) -> float:
        """What an update weighs before the weights are normalised, and before equation 2's boost."""
        if staleness == 0 or self.weighting == "equal":
            return 1.0
        if self.weighting == "adasgd":
            return math.exp(-(staleness + 1))
        return (1 - (self.boost or 0.0)) / (staleness + 1)


class StaleSynchronousSettings(AlgorithmSettings):
    """``cohort`` is N_0, the fresh updates that a round waits for, and ``over_selection`` the clients that it starts
    (by default as many). ``target_ratio``: a round waits for that share of the clients that it started instead.
    ``deadline``: virtual seconds after which it ends with what has come. ``selection`` says who is started; with
    ``everybody`` there is no cohort, and the round ends with the ratio of all who train, those who began earlier too.

    ``stale``: what becomes of late updates; left out, they are given up as their round ends. ``adaptive_target``: N_t
    is N_0 less the late clients that expect to be there within mu_t (section 4.1, APT). ``oracle``: work whose update
    is never used costs nothing, the course of events being the same (SAFA+O, section 3.2).
    """

    FOLLOWS_AVAILABILITY: ClassVar[bool] = True

    scheduler: Literal["stale_synchronous"]
    cohort: int | None = Field(None, ge=1, le=10**8)
    over_selection: int | None = Field(None, ge=1, le=10**8)
    deadline: float | None = Field(None, gt=0, le=1e15)
    target_ratio: float | None = Field(None, gt=0, le=1)
    selection: Selection = UniformSettings(kind="uniform")
    stale: StaleSettings | None = None
    adaptive_target: bool = False
    oracle: bool = False
    weighting: Literal["uniform"] = "uniform"

    @model_validator(mode="after")
    def _somebody_is_waited_for(self) -> "StaleSynchronousSettings":
        kind = self.selection.kind
        if not isinstance(self.selection, EverybodySelection):
            if self.cohort is None:
                raise ValueError(
                    f"cohort: missing; selection {kind} chooses as many; give it, or selection: {{kind: everybody}}"
                )
            if self.over_selection is not None and self.over_selection < self.cohort:
                raise ValueError(
                    f"over_selection: {self.over_selection} is below cohort {self.cohort}; raise it or lower cohort"
                )
            return self
        for key in ("cohort", "over_selection"):
            if getattr(self, key) is not None:
                raise ValueError(f"{key}: selection {kind} starts all who are online; leave it out")
        if self.adaptive_target:
            raise ValueError(f"adaptive_target: selection {kind} starts all who are online; leave it out")
        if self.target_ratio is None:
            raise ValueError(
                "target_ratio: missing; it is what ends a round of everybody, beside a deadline; give the share of "
                "those who train that a round waits for"
            )
        return self

    @model_validator(mode="after")
    def _late_updates_come_and_count(self) -> "StaleSynchronousSettings":
        if self.adaptive_target and self.stale is None:
            raise ValueError("adaptive_target: counts on late updates, which are given up without stale; give stale")
        waits_for_all = self.deadline is None and self.selected == self.cohort and self.target_ratio in (None, 1)
        if self.stale is not None and waits_for_all:
            raise ValueError(
                "stale: there are no late updates, every round waits for all its clients; give an over_selection above "
                "the cohort, a deadline or a target_ratio below 1, or leave it out"
            )
        return self

    @property
    def updates(self) -> int:
        """N_0; one at least, where everybody trains."""
        return self.cohort or 1

    @property
    def selected(self) -> int | None:
        """How many clients a round starts, unless it is everybody."""
        return self.over_selection or self.cohort

    @property
    def reads_losses(self) -> bool:
        return isinstance(self.selection, OortSettings)

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        found = super().mistakes(population, budget)
        if self.selected is None:
            return found
        key = "cohort" if self.over_selection is None else "over_selection"
        clients = len(population)
        if self.selected > clients:
            return [*found, f"{key}: {self.selected} exceeds the population of {clients} clients; lower it"]
        if isinstance(self.selection, PrioritySettings):
            needed = self.selected * (self.selection.rest + 1)
            if needed > clients:
                found.append(
                    f"selection.rest: {self.selection.rest} rounds of rest for each of {self.selected} clients need "
                    f"{needed:,} clients, and there are {clients:,}; lower it or {key}"
                )
        if isinstance(self.selection, ByExamplesSettings):
            holders = int((population.examples > 0).sum())
            if self.selected > holders:
                found.append(
                    f"selection: by_examples selects clients who hold an example, and of {self.selected} wanted there "
                    f"are {holders}; lower {key}, or name uniform"
                )
        return found


class StaleSynchronous(Scheduler):
    """One round at a time."""

    def __init__(self, settings: StaleSynchronousSettings) -> None:
        self.settings = settings
        self.selector = make_selector(settings.selection, settings.client)
        self.round = 0
        """The rounds that have begun."""
        self.is_open = self.is_waiting = False
        """Whether a round is under way, and whether one would be if there were clients for it."""
        self.began = 0.0
        self.mu = settings.deadline
        """The moving average of the rounds' durations, in virtual seconds; before the first is over, what is known of
        them. A round that ended because too few were left says nothing of how long rounds take: with it, those who
        soon drop out would make mu short, and a short mu selects whoever drops out sooner still."""
        self.under_way: dict[int, Participation] = {}
        """By number, the updates that may still be used, of this round and earlier ones."""
        self.awaited: set[int] = set()
        """Numbers of the updates that the round may end by, and have not come."""
        self.missing = 0
        """How many of those it still waits for."""
        self.received: list[Participation] = []
        """In arrival order, what the next server update is made of."""

    def begin(self, server: Server) -> None:
        mu = self.mu or 0.0
        target = self.target(server, mu)
        wanted = Wanted(self.round + 1, self.to_start(target, len(server.population)), mu)
        clients = self.selector.select(server, wanted)
        self.is_waiting = not len(clients)
        if self.is_waiting:
            self.wait(server)
            return
        self.round, self.is_open, self.began = wanted.round, True, server.now
        server.take(clients)
        started = {update.number for update in self.start(server, clients.tolist())}
        self.awaited = set(self.under_way) if isinstance(self.settings.selection, EverybodySelection) else started
        self.missing = target
        if self.settings.target_ratio is not None:
            self.missing = max(1, math.ceil(self.settings.target_ratio * len(self.awaited) - _ROUNDING))
        if self.settings.deadline is not None:
            server.set_timer(server.now + self.settings.deadline, self.round)

    def start(self, server: Server, clients: list[int]) -> list[Participation]:
        started = server.start(clients)
        self.under_way |= {update.number: update for update in started}
        return started

    def target(self, server: Server, mu: float) -> int:
        """N_t (section 4.1)."""
        if not self.settings.adaptive_target:
            return self.settings.updates
        soon = sum(server.remaining(straggler) <= mu for straggler in self.under_way.values())  # B_t
        return max(1, self.settings.updates - soon)

    def to_start(self, target: int, population: int) -> int:
        """As many as are needed for the target, in the proportion of over_selection to cohort."""
        if self.settings.selected is None:
            return population
        return -(-target * self.settings.selected // self.settings.updates)

    def wait(self, server: Server) -> None:
        """Nobody can be selected: until somebody comes online, or whoever is under way has come. Clients are not free
        while their updates wait to be aggregated, so that these are used then."""
        if self.received and not self.under_way:
            self.close(server)
        elif (time := self.selector.next_chance(server)) < math.inf:
            server.set_timer(time, _BEGIN, is_deadline=False)

    def arrived(self, server: Server, update: Participation) -> None:
        del self.under_way[update.number]
        self.received.append(update)
        self.selector.uploaded(update, self.round)
        if update.number in self.awaited:
            self.awaited.remove(update.number)
            self.missing -= 1
        self.go_on(server)

    def discarded(self, server: Server, update: Participation) -> None:
        self.selector.uploaded(update, self.round)
        self.go_on(server)

    def lost(self, server: Server, update: Participation) -> None:
        self.under_way.pop(update.number, None)
        self.awaited.discard(update.number)
        self.go_on(server)

    def timer(self, server: Server, token: int) -> None:
        if token == _BEGIN and not self.is_open:
            self.begin(server)
        elif token == self.round and self.is_open:
            self.close(server)

    def go_on(self, server: Server) -> None:
        """Somebody has come, or will not come."""
        if self.is_open and (self.missing <= 0 or not self.awaited):
            self.close(server)
        elif self.is_waiting:
            self.begin(server)

    def close(self, server: Server) -> None:
        fell_short = not self.awaited and self.missing > 0
        if self.is_open and not fell_short:
            duration = server.now - self.began  # D_t
            self.mu = duration if self.mu is None else (1 - _ALPHA) * duration + _ALPHA * self.mu
        self.is_open = self.is_waiting = False
        updates, self.received = self.received, []
        if updates:
            self.aggregate(server, updates)
        self.selector.closed(updates, self.round)
        self.give_up(server)
        # Losses are known when this server update is made, and whoever comes at this very moment has come.
        server.set_timer(server.now, _BEGIN, is_deadline=False)

    def aggregate(self, server: Server, updates: list[Participation]) -> None:
        """Section 4.2.4: the fresh ones, then the stale ones."""
        updates.sort(key=lambda update: update.staleness > 0)
        stale = self.settings.stale
        weights = [1.0 if stale is None else stale.weight(update.staleness) for update in updates]
        boost = None if stale is None else stale.boost
        if boost is None:
            total = sum(weights)
            weights = [weight / total for weight in weights]
        server.aggregate(updates, weights, boost=boost)

    def give_up(self, server: Server) -> None:
        """Whoever is late and would come too late."""
        stale, too_late = self.settings.stale, list(self.under_way.values())
        if stale is not None:
            if stale.threshold is None:
                return
            too_late = [update for update in too_late if server.version - update.version > stale.threshold]
        server.give_up(too_late)
        for update in too_late:
            del self.under_way[update.number]
