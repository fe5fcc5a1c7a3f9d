"""FedCompass: clients take as many steps as let them arrive together (Li et al. 2024, Algorithms 1 to 3).

All clients always train. The server learns their speeds as they arrive and assigns each to an arrival group: the steps
that it takes make it arrive at the group's expected time. A group that is complete makes a server update, or what has
come of it by its latest time; who is later goes into the next server update.
"""

from math import floor
from typing import Literal, NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from fedhpc.clients.settings import MOST_STEPS
from fedhpc.federation.schedulers.everybody import EverybodySettings
from fedhpc.federation.schedulers.staleness import ConstantStaleness, Staleness
from fedhpc.federation.server import Scheduler, Server
from fedhpc.federation.updates import Participation, ScheduleError

_ROUNDING = 1e-9
"""A client that needs just its group's time must not be late by a rounding, where lambda is 1, nor lose a step by one:
times are compared to this share of their span."""


class CompassSettings(EverybodySettings):
    """``min_steps`` and ``max_steps`` are Q_min and Q_max, which take the place of the client's epochs or steps;
    ``latest_time_factor`` is lambda. An update weighs alpha st(tau) p_i: ``mixing`` is alpha, ``staleness`` st.

    ``normalization``: the weighted ``sum`` (Algorithm 3), or FedCompass+N, which normalises by ``steps`` (FedNova, Wang
    et al. 2020): (sum(a_j tau_j) / sum(a_j)) sum(a_i delta_i / tau_i), with tau_i the steps and a_i the weight of an
    update. It is FedNova's where sum(a_j) is 1, and the plain sum where all take the same steps.
    """

    scheduler: Literal["compass"]
    min_steps: int = Field(ge=1, le=MOST_STEPS)
    max_steps: int = Field(ge=1, le=MOST_STEPS)
    latest_time_factor: float = Field(1.2, ge=1, le=1e6)
    mixing: float = Field(gt=0, le=1)
    staleness: Staleness = ConstantStaleness(kind="constant")
    normalization: Literal["sum", "steps"] = "sum"

    @field_validator("max_steps")
    @classmethod
    def _some_number_of_steps_is_allowed(cls, most: int, others: ValidationInfo) -> int:
        least = others.data.get("min_steps", 1)
        if most < least:
            raise ValueError(f"{most} is below min_steps {least}; raise it or lower min_steps")
        return most


class Arrived(NamedTuple):
    """An uploaded update: the how manyth of the run, and what it weighs."""

    place: int
    update: Participation
    weight: float


class Group(NamedTuple):
    """G[g]: ``expected`` is T_a and ``latest`` T_max, in seconds; ``awaited`` is CL, ``arrived`` ACL and its buffer."""

    number: int
    expected: float
    latest: float
    awaited: set[int]
    arrived: list[Arrived]


class Compass(Scheduler):
    """Server side; lines are Algorithm 1's unless another is named."""

    def __init__(self, settings: CompassSettings) -> None:
        self.settings = settings
        self.importance: list[float] = []
        """p_i: of all clients; they sum to 1."""
        self.speed: dict[int, float] = {}
        """C[i].S, in seconds a step."""
        self.group_of: dict[int, Group] = {}
        """C[i].G: the group that a client was last assigned to, which may be over."""
        self.groups: dict[int, Group] = {}
        """G: those that are not over, in the order of their creation."""
        self.general: list[Arrived] = []
        """The general buffer: those who were late."""
        self.created = 0
        self.came = 0

    def begin(self, server: Server) -> None:
        examples = server.population.examples
        shares = (
            examples / examples.sum() if self.settings.weighting == "examples" else [1 / len(examples)] * len(examples)
        )
        self.importance = [float(share) for share in shares]
        clients = server.free.take_everybody()
        server.start(clients, steps=[self.settings.min_steps] * len(clients))  # line 8

    def arrived(self, server: Server, update: Participation) -> None:
        client = update.client
        self.speed[client] = self.measured(server, update)  # line 12
        stale = self.settings.staleness.weight(server.version - update.version)
        self.came += 1
        arrived = Arrived(self.came, update, self.settings.mixing * stale * self.importance[client])
        group = self.group_of.get(client)
        if group is None:
            server.aggregate([update], [arrived.weight])  # line 25
            self.start(server, [client])  # lines 26-27
        elif group.number not in self.groups:  # line 15: T_max has passed. At T_max arrivals come before timers (law 1)
            self.general.append(arrived)  # line 16
            self.start(server, [client])  # lines 17-18; line 19 is done, its group is over
        else:
            group.awaited.remove(client)  # line 14
            group.arrived.append(arrived)  # line 21
            if not group.awaited:  # line 22
                self.aggregate(server, group)  # line 23

    def timer(self, server: Server, token: int) -> None:
        group = self.groups.get(token)
        if group is not None:  # Algorithm 3, line 3
            self.aggregate(server, group)

    def lost(self, server: Server, update: Participation) -> None:
        """The client of this participation will not be heard of again."""
        group = self.group_of.pop(update.client, None)
        if group is not None and group.number in self.groups:
            group.awaited.remove(update.client)
            if not group.awaited:
                self.aggregate(server, group)

    def measured(self, server: Server, update: Participation) -> float:
        """Seconds a step that this participation took.

        Raises ScheduleError where it took no time, from which no steps could be counted.
        """
        seconds = server.now - update.started
        if seconds <= 0:
            raise ScheduleError(
                f"client {update.client} took {update.steps} steps in no time at second {server.now:g}, and Compass "
                "counts on seconds a step; give the scenario a longer per_step or per_example"
            )
        return seconds / update.steps

    def aggregate(self, server: Server, group: Group) -> None:
        """GROUPAGGREGATE, Algorithm 3. The group is over before its clients are assigned: one that is complete before
        its expected time could be joined again otherwise."""
        del self.groups[group.number]
        came = sorted([*self.general, *group.arrived])
        if came:
            self.general = []
            server.aggregate([arrived.update for arrived in came], self.weights(came))  # line 4
        clients = [arrived.update.client for arrived in group.arrived]
        clients.sort(key=self.speed.__getitem__)  # line 5
        self.start(server, clients)  # lines 6-9

    def weights(self, came: list[Arrived]) -> list[float]:
        """Of the updates of a server update, FedCompass's or FedCompass+N's."""
        weights = [arrived.weight for arrived in came]
        if self.settings.normalization == "sum":
            return weights
        # All are 0 where a steep staleness leaves nothing of them.
        total = sum(weights) or 1.0
        steps = [arrived.update.steps for arrived in came]
        mean = sum(weight * own for weight, own in zip(weights, steps, strict=True)) / total
        return [weight / own * mean for weight, own in zip(weights, steps, strict=True)]

    def start(self, server: Server, clients: list[int]) -> None:
        """Each is assigned to a group, in this order, and trains from the newest version."""
        if clients:
            server.start(clients, steps=[self.assign(server, client) for client in clients])

    def assign(self, server: Server, client: int) -> int:
        """ASSIGNGROUP, Algorithm 2: the steps that the client is to take, C[i].Q."""
        return self.join(server.now, client) or self.create(server, client)

    def join(self, now: float, client: int) -> int:
        """JOINGROUP, Algorithm 2: of the groups that the client can be in time for, the one that lets it take most
        steps; 0 where there is none."""
        chosen, steps = None, 0
        for group in self.groups.values():
            q = self.steps_until(group.expected, now, client)  # line 8
            if max(self.settings.min_steps, steps) <= q <= self.settings.max_steps:  # line 9
                chosen, steps = group, q  # line 10
        if chosen is not None:
            self.group_of[client] = chosen  # line 12
            chosen.awaited.add(client)  # line 13
        return steps

    def create(self, server: Server, client: int) -> int:
        """CREATEGROUP, Algorithm 2: a group whose time suits another's, so that they can be one in the next round."""
        least, most = self.settings.min_steps, self.settings.max_steps
        now, own = server.now, self.speed[client]
        steps = -1  # line 19
        for group in self.groups.values():
            if now < group.expected:  # line 21
                members = [*group.awaited, *(arrived.update.client for arrived in group.arrived)]
                fastest = min(self.speed[member] for member in members)  # line 22
                next_time = group.expected + fastest * most  # line 23
                steps = max(steps, self.steps_until(next_time, now, client))  # line 24
        if 0 <= steps < least:
            steps = least  # line 26
        elif steps < 0 or steps > most:
            steps = most  # line 29
        self.created += 1
        span = steps * own
        latest = now + span * max(self.settings.latest_time_factor, 1 + _ROUNDING)
        group = Group(self.created, now + span, latest, {client}, [])  # lines 30-33
        self.groups[group.number] = self.group_of[client] = group  # line 34
        server.set_timer(group.latest, group.number, is_deadline=False)  # line 35
        return steps

    def steps_until(self, time: float, now: float, client: int) -> int:
        """The whole steps that the client can take until then. What is rounded up is on time: it is half of what
        ``latest`` allows."""
        return floor((time - now) / self.speed[client] * (1 + _ROUNDING / 2))
