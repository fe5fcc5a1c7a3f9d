"""The server as a scheduler sees it: whom to start, and which client updates make which server update.

How time passes is not its matter: it is virtual (``virtual_server.py``) or a clock's (``wall_server.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpc.budget import Budget
from fedhpc.clients.work import NO_TEACHER, teacher_id
from fedhpc.federation.population import Population
from fedhpc.federation.selection import FreeClients
from fedhpc.federation.updates import Participation, ScheduleError, ServerUpdate, TierStep, Totals


class Scheduler(Protocol):
    """The policy: whom to start, when, and when to aggregate. It acts through the server that it is handed."""

    def begin(self, server: "Server") -> None:
        """Time starts."""
        raise NotImplementedError

    def arrived(self, server: "Server", update: Participation) -> None:
        """A client update has been uploaded."""
        raise NotImplementedError

    def timer(self, server: "Server", token: int) -> None:
        """A timer set with this token has run out."""
        raise NotImplementedError

    def lost(self, server: "Server", update: Participation) -> None:
        """The client of this participation, which is under way, will not be heard of again. Its time is accounted for.
        A silo that is lost is not free, a virtual client that went offline is; virtual clients without an availability
        are never lost."""
        raise NotImplementedError

    def discarded(self, server: "Server", update: Participation) -> None:
        """An update that was given up has been uploaded, and its client is free."""
        return


@dataclass(kw_only=True)
class Server:
    """The bookkeeping of a federation. Schedulers use ``select``, ``start``, ``stop``, ``aggregate``, and those that
    hear late clients ``add_late``, ``give_up``, ``open_round``, ``close_round`` and ``drop_delta``. Those that choose
    among clients who come and go use ``candidates`` and ``take`` in the place of ``select``."""

    scheduler: Scheduler
    population: Population
    free: FreeClients
    budget: Budget
    chance: np.random.Generator
    """What the scheduler draws from."""
    distils: bool = False
    """Whether clients have a teacher; unless the scheduler says otherwise, it is the model that they download."""
    oracle: bool = False
    """Whether an oracle knows which updates will be used, so that the others are never worked on: they come as they
    would, and cost nothing (RELAY, section 3.2: SAFA+O)."""

    now: float = 0.0
    version: int = 0
    tree_step: tuple[int, int] = (0, 0)
    totals: Totals = field(default_factory=Totals)
    participations: dict[int, int] = field(default_factory=dict)
    aggregated: dict[int, int] = field(default_factory=dict)
    open_updates: dict[int, int] = field(default_factory=dict)
    """Version -> updates that started from it and may still be aggregated."""

    _emitted: list[ServerUpdate] = field(default_factory=list)
    _newest: ServerUpdate = field(init=False)
    _settled: list[int] = field(default_factory=list)
    _late: list[Participation] = field(default_factory=list)
    _closed: list[int] = field(default_factory=list)
    _dropped: list[int] = field(default_factory=list)
    _starts: int = 0
    _teachers: int = 0

    def __post_init__(self) -> None:
        self._newest = ServerUpdate(0, self.now, [], [], self.totals.copy(), [])
        self._emitted.append(self._newest)
        self._examples = self.population.examples.item

    # What a scheduler does.

    def select(self, count: int) -> list[int]:
        """``count`` clients drawn uniformly without replacement from those that are free: whose update is neither
        under way nor waiting to be aggregated (FedBuff, appendix D).

        Where clients take part once an epoch and too few are left in this one, the next epoch begins, and with it a
        new tree of noise: updates that wait to be aggregated fall into that.

        Raises ScheduleError where fewer are free.
        """
        if self.free.once_an_epoch and count > self.free.count:
            self.free.restart()
            self.tree_step = (self.tree_step[0] + 1, 0)
        try:
            return self.free.take(count)
        except IndexError as error:
            raise ScheduleError(f"{error}; ask for fewer at a time, or give the task more clients") from None

    def candidates(self) -> NDArray[np.bool_]:
        """Who is free and online now, bool [clients]: an array of the caller's own."""
        raise NotImplementedError

    def take(self, clients: NDArray[np.int64]) -> None:
        """Candidates are free no longer."""
        raise NotImplementedError

    def next_online(self, besides: Sequence[int] = ()) -> float:
        """The first second after now at which a client comes online that is free now and not one of ``besides``;
        infinite where none will."""
        raise NotImplementedError

    def probability(self, clients: NDArray[np.int64], start: float, end: float) -> NDArray[np.float64]:
        """The probability that each of the clients is available from second ``start`` to ``end``, float64 [clients]: a
        forecast."""
        raise NotImplementedError

    def remaining(self, update: Participation) -> float:
        """A client's own estimate of the seconds until it uploads, which does not know whether it will drop out: a
        forecast."""
        raise NotImplementedError

    def loss(self, update: Participation) -> float:
        """The mean over the client's examples of the squared loss of the model that it downloaded, in nats^2. It is
        known once the server update that uses the update has been made; the scheduler's settings say that it asks
        (``reads_losses``)."""
        raise NotImplementedError

    def start(
        self,
        clients: Sequence[int],
        rounds: Sequence[int | None] | None = None,
        steps: Sequence[int] | None = None,
    ) -> list[Participation]:
        """The clients download the current version and train. ``rounds``: whose delta each one's teacher is made of,
        None for no teacher. ``steps``: the mini-batches that each takes, where it is not what the client's settings
        say. Clients who cannot do anything by the scenario's deadline are left out and stay free."""
        clients = self._who_can(clients)
        started = []
        version, now, number, participations = self.version, self.now, self._starts, self.participations
        own_model = version if self.distils else NO_TEACHER
        for place, client in enumerate(clients):
            participation = participations.get(client, 0)
            participations[client] = participation + 1
            update = Participation(number, client, participation, version, self._examples(client), now, own_model)
            self._set_out(update, None if steps is None else steps[place])
            started.append(update)
            number += 1
        self._starts = number
        if rounds is not None:
            self._assign_teachers(started, rounds)
        if started:
            self.open_updates[version] = self.open_updates.get(version, 0) + len(started)
        return started

    def stop(self, updates: Sequence[Participation]) -> None:
        """Tells clients under way to stop: what they spent until now is wasted, and they are free again."""
        for update in updates:
            update.stopped = True
            self._waste(self.now - update.started)
        self._close(updates)

    def give_up(self, updates: Sequence[Participation]) -> None:
        """Clients under way go on, but their updates will not be used: their time is wasted when they arrive."""
        for update in updates:
            update.given_up = True
        self._settle(updates)

    def set_timer(self, time: float, token: int, *, is_deadline: bool = True) -> None:
        """Asks for ``scheduler.timer(token)`` at that second. A run in which only deadlines pass is ended."""
        raise NotImplementedError

    def mean_weights(self, updates: Sequence[Participation], weighting: Literal["examples", "uniform"]) -> list[float]:
        """Weights that sum to one: by the examples a client holds, or equal. All zero where nobody has an example."""
        if weighting == "uniform":
            return [1.0 / len(updates)] * len(updates)
        total = sum(update.examples for update in updates)
        return [update.examples / total if total else 0.0 for update in updates]

    def aggregate(
        self,
        updates: list[Participation],
        weights: list[float],
        *,
        keeps_delta: bool = False,
        moves_to_clients: bool = False,
        tier: TierStep | None = None,
        boost: float | None = None,
    ) -> None:
        """A server update: the next version is this one less the server optimiser's step along
        ``sum(weight * delta)``, summed in the order given. The lists are the server update's from now on.

        ``keeps_delta``: late updates may still be added to ``sum(delta)``; the weights are then all the same.
        ``moves_to_clients``: the step is along ``sum(weight * (w - w_client))`` instead. ``tier``: the updates make a
        tier's model, and the tiers' models the next version. ``boost``: as in ``ServerUpdate``.
        """
        self.version += 1
        tree, steps = self.tree_step
        self.tree_step = (tree, steps + 1)
        self.totals.server_updates += 1
        self.totals.client_updates += len(updates)
        self._use(updates)
        self._newest = ServerUpdate(
            self.version,
            self.now,
            updates,
            weights,
            self.totals.copy(),
            self._settled,
            self._late,
            keeps_delta,
            self._closed,
            self._dropped,
            moves_to_clients=moves_to_clients,
            tree_step=self.tree_step,
            tier=tier,
            boost=boost,
        )
        self._emitted.append(self._newest)
        self._settled, self._late, self._closed, self._dropped = [], [], [], []

    def add_late(self, update: Participation, *, counts: bool) -> None:
        """An update that came after its round's server update is added to the round's delta. ``counts``: it is a client
        update aggregated, as far as the budget is concerned."""
        self.totals.late_updates += 1
        self.totals.client_updates += counts
        self._use([update])
        self._late.append(update)

    def open_round(self) -> None:
        """The clients that start from the current version are a round that will be closed: the version is kept for
        that."""
        self.open_updates[self.version] = self.open_updates.get(self.version, 0) + 1

    def close_round(self, start: int) -> None:
        """The delta of the round that started from version ``start`` is final, and the output model is to take it."""
        self._closed.append(start)
        self._settle_one(start)

    def drop_delta(self, start: int) -> None:
        """Nobody will ask for the delta of the round that started from version ``start`` any more."""
        self._dropped.append(start)

    def profile(self) -> list[float]:
        """Seconds a mini-batch of every client, as it was measured once before the federation: a forecast."""
        raise NotImplementedError

    def durations(self) -> NDArray[np.float64]:
        """Virtual seconds from download to upload of every client's work, as they were measured once before the
        federation, float64 [clients]: a forecast."""
        raise NotImplementedError

    @property
    def deadline(self) -> float | None:
        """Virtual seconds that a round's clients have, where the scenario sets a limit."""
        return None

    # What time does.

    def _who_can(self, clients: Sequence[int]) -> Sequence[int]:
        """Those of the clients who can do something by the deadline; the others are free again."""
        return clients

    def _set_out(self, update: Participation, steps: int | None) -> None:
        """The client has downloaded its version and begins to train. ``steps``: as in ``start``."""
        raise NotImplementedError

    def receive(self, update: Participation) -> None:
        """A client update has been uploaded at this very moment."""
        totals, spent = self.totals, self.now - update.started
        update.staleness = self.version - update.version
        totals.client_trips += 1
        if update.given_up:
            self._waste(spent)
            self.free.give_back([update.client])
            self.scheduler.discarded(self, update)
        else:
            totals.resource_used += spent
            totals.updates_waiting += 1
            self.scheduler.arrived(self, update)

    def drop_out(self, update: Participation) -> None:
        """A client under way goes offline at this very moment: what it spent is wasted, and it is free again."""
        self._waste(self.now - update.started)
        self.free.give_back([update.client])
        if not update.given_up:
            self._settle([update])
        self.scheduler.lost(self, update)

    def take_emitted(self) -> list[ServerUpdate]:
        """The server updates since this was last asked for, in their order; version 0 is the first."""
        emitted, self._emitted = self._emitted, []
        return emitted

    def spent(self) -> bool:
        """Whether the budget's counts are reached."""
        budget, totals = self.budget, self.totals
        return (
            (budget.client_updates is not None and totals.client_updates >= budget.client_updates)
            or (budget.client_trips is not None and totals.client_trips >= budget.client_trips)
            or (budget.server_updates is not None and totals.server_updates >= budget.server_updates)
        )

    def _waste(self, spent: float) -> None:
        """Seconds that a client spent on an update which will not be used."""
        if not self.oracle:
            self.totals.resource_used += spent
            self.totals.resource_wasted += spent

    def _assign_teachers(self, started: Sequence[Participation], rounds: Sequence[int | None]) -> None:
        """One teacher for all that start now and are distilled by the same round's delta."""
        of_round: dict[int, int] = {}
        for update, past in zip(started, rounds, strict=True):
            if past is None:
                update.teacher = NO_TEACHER
                continue
            if past not in of_round:
                of_round[past] = teacher_id(self._teachers)
                self._teachers += 1
            update.teacher = of_round[past]
        self._newest.teachers |= {teacher: past for past, teacher in of_round.items()}

    def _use(self, updates: Sequence[Participation]) -> None:
        """They go into the server's model, now or by their round's delta, and the clients are free."""
        aggregated, steps = self.aggregated, 0
        for update in updates:
            aggregated[update.client] = aggregated.get(update.client, 0) + 1
            steps += update.steps
        self.totals.local_steps += steps
        self.totals.updates_waiting -= len(updates)
        self.totals.unique_clients = len(aggregated)
        self._close(updates)

    def _close(self, updates: Sequence[Participation]) -> None:
        """Their fate is settled, and the clients are free."""
        self.free.give_back([update.client for update in updates])
        self._settle(updates)

    def _settle(self, updates: Sequence[Participation]) -> None:
        """The versions that they started from have fewer reasons to live."""
        for update in updates:
            self._settle_one(update.version)

    def _settle_one(self, version: int) -> None:
        left = self.open_updates[version] - 1
        if left:
            self.open_updates[version] = left
        else:
            del self.open_updates[version]
            self._settled.append(version)
