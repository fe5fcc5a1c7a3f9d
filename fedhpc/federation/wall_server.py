"""A clock's time: the server whose clients are silos, which compute at their own speed and may be lost.

The schedulers are those of virtual time, unchanged. What they ask for is put down here, and the engine
(``wall_engine.py``) carries it to the silos.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.server import Server
from fedhpc.federation.updates import Participation, ScheduleError, Totals

_DEADLINES_WITHOUT_ARRIVAL = 1_000


@dataclass(frozen=True)
class Loss:
    """A silo that was given up, at that second of the federation."""

    client: int
    second: float


@dataclass(kw_only=True)
class WallServer(Server):
    """``now`` is in seconds since the federation began; who carries messages sets it before each call.

    ``work`` says how many mini-batches a client takes where the scheduler does not. ``losses`` holds all silos that
    were given up, in their order; after an interruption everybody is there again, so that one may be lost twice.
    ``profiled``: seconds a mini-batch of every client, where the scheduler asks for them.
    """

    work: ClientSettings
    profiled: list[float] = field(default_factory=list)
    under_way: dict[int, Participation] = field(default_factory=dict)
    """By client: whose update is still to come."""
    lost_at: dict[int, float] = field(default_factory=dict)
    """Client -> the second when it was given up for good."""
    losses: list[Loss] = field(default_factory=list)

    _to_start: list[Participation] = field(default_factory=list)
    _to_abandon: list[Participation] = field(default_factory=list)
    _timers: list[tuple[float, int, int, bool]] = field(default_factory=list)
    _timers_set: int = 0
    _fruitless: int = 0
    _spent_waiting: dict[int, float] = field(default_factory=dict)
    """By participation: learner seconds behind an update that was uploaded and is still to be used."""

    # What a scheduler does.

    def select(self, count: int) -> list[int]:
        """As ever; but where silos were lost, and with them the ``count`` cannot be had, those that are free.

        Raises ScheduleError where no silo is left.
        """
        if self.lost_at:
            if not self.living:
                raise ScheduleError(f"no silo is left: {self._obituary()}")
            count = min(count, self.free.count)
        return super().select(count)

    def start(
        self,
        clients: Sequence[int],
        rounds: Sequence[int | None] | None = None,
        steps: Sequence[int] | None = None,
    ) -> list[Participation]:
        """As ever, of those that are not lost: one may have been, between its update and what makes a server update of
        it. The scheduler hears of that now."""
        living = [place for place, client in enumerate(clients) if client not in self.lost_at]
        dead = [client for client in clients if client in self.lost_at]
        started = super().start(
            [clients[place] for place in living],
            None if rounds is None else [rounds[place] for place in living],
            None if steps is None else [steps[place] for place in living],
        )
        for client in dead:
            never_began = Participation(-1, client, 0, self.version, self._examples(client), self.now, stopped=True)
            self.scheduler.lost(self, never_began)
        return started

    def profile(self) -> list[float]:
        return self.profiled

    def stop(self, updates: Sequence[Participation]) -> None:
        for update in updates:
            del self.under_way[update.client]
        self._to_abandon += updates
        super().stop(updates)

    def set_timer(self, time: float, token: int, *, is_deadline: bool = True) -> None:
        self._timers_set += 1
        heappush(self._timers, (time, self._timers_set, token, is_deadline))

    # What time does.

    def _set_out(self, update: Participation, steps: int | None) -> None:
        update.steps = self.work.local_steps(update.examples) if steps is None else steps if update.examples else 0
        self.under_way[update.client] = update
        self._to_start.append(update)

    def receive(self, update: Participation) -> None:
        update.arrives = self.now
        del self.under_way[update.client]
        self._fruitless = 0
        if not update.given_up:
            self._spent_waiting[update.number] = self.now - update.started
        super().receive(update)

    def fire_timer(self) -> bool:
        """Lets the scheduler know of the earliest timer, if its moment has come; whether it had.

        Raises ScheduleError where deadlines pass again and again and nobody arrives.
        """
        if not self._timers or self._timers[0][0] > self.now:
            return False
        _, _, token, is_deadline = heappop(self._timers)
        self._fruitless += is_deadline
        if self._fruitless > _DEADLINES_WITHOUT_ARRIVAL:
            raise ScheduleError(
                f"{self._fruitless:,} deadlines passed in a row without an arrival; raise the algorithm's deadline"
            )
        self.scheduler.timer(self, token)
        return True

    def lose(self, client: int) -> None:
        """The silo is given up: it is never selected again, and what it still sends will not be received. The time that
        it spent on an update under way is wasted; an update that has been uploaded will be used."""
        self.lost_at[client] = self.now
        self.losses.append(Loss(client, self.now))
        self.free.retire(client)
        update = self.under_way.pop(client, None)
        if update is None:
            return
        spent = self.now - update.started
        self.totals.resource_used += spent
        self.totals.resource_wasted += spent
        update.stopped = True
        if not update.given_up:
            self._settle([update])
            self.scheduler.lost(self, update)

    @property
    def living(self) -> int:
        """How many silos are not lost."""
        return len(self.population) - len(self.lost_at)

    def refuse_to_wait_in_vain(self) -> None:
        """Raises ScheduleError where nothing will ever happen again: no update is under way and no timer is set."""
        if self.under_way or self._timers:
            return
        why = f"too few silos are left, {self.living} of {len(self.population)}: {self._obituary()}"
        raise ScheduleError(f"no client is training and no timer is set{'; ' + why if self.lost_at else ''}")

    def take_started(self) -> list[Participation]:
        """Who was started since this was last asked for, and is to be sent the work."""
        started, self._to_start = self._to_start, []
        return [update for update in started if not update.stopped]

    def take_abandoned(self) -> list[Participation]:
        """Who was told to stop since this was last asked for."""
        abandoned, self._to_abandon = self._to_abandon, []
        return abandoned

    def go_on(
        self,
        now: float,
        version: int,
        totals: Totals,
        participations: dict[int, int],
        aggregated: dict[int, int],
        losses: list[Loss],
    ) -> None:
        """Takes up an interrupted federation before it begins: version 0 is not emitted again, and the scheduler begins
        afresh with everybody from the version that there is."""
        self.now, self.version, self.totals = now, version, totals
        self.participations, self.aggregated, self.losses = participations, aggregated, losses
        self.take_emitted()

    def totals_if_interrupted(self) -> Totals:
        """The totals, were everything that waits or is under way lost now: what waits is wasted, and what is under way
        not yet spent."""
        totals = self.totals.copy()
        totals.updates_waiting = 0
        totals.resource_wasted += sum(self._spent_waiting.values())
        return totals

    def _use(self, updates: Sequence[Participation]) -> None:
        for update in updates:
            self._spent_waiting.pop(update.number, None)
        super()._use(updates)

    def _obituary(self) -> str:
        return ", ".join(f"client {client} was lost at second {second:.1f}" for client, second in self.lost_at.items())
