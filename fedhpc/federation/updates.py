"""What happens in a federation, as data: participations of clients, server updates, and what they come to."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from fedhpc.clients.work import NO_TEACHER


class ScheduleError(Exception):
    """A schedule that would never end."""


@dataclass(slots=True, eq=False)
class Participation:
    """One client's one round trip. ``number`` counts all starts of a run; ``participation`` those of this client.

    ``version`` is the server version that the client downloads, ``teacher`` the id of the vector that it is distilled
    from. ``started`` and ``arrives`` are virtual seconds, ``steps`` the mini-batches that it takes; ``coreset`` and
    ``whole_epochs`` are as in ``Member``. ``staleness`` counts the server updates between download and upload. It was
    ``stopped`` if it ends before it arrives, and ``given_up`` if its update will not be used.
    """

    number: int
    client: int
    participation: int
    version: int
    examples: int
    started: float
    teacher: int = NO_TEACHER
    steps: int = 0
    coreset: int = 0
    whole_epochs: int = 0
    arrives: float = math.inf
    staleness: int = 0
    stopped: bool = False
    given_up: bool = False


@dataclass(slots=True)
class Totals:
    """What a run has come to: counts, and learner seconds.

    ``client_updates`` were aggregated; ``late_updates`` came after their round's server update and were still added to
    its delta; ``local_steps`` is the mini-batches of both; ``client_trips`` were uploaded. ``resource_used`` is all
    time that clients spent, ``resource_wasted`` the part whose update was never used. ``updates_waiting`` were uploaded
    and are still to be used. ``unique_clients`` counts clients with an update used.
    """

    server_updates: int = 0
    client_updates: int = 0
    late_updates: int = 0
    client_trips: int = 0
    local_steps: int = 0
    resource_used: float = 0.0
    resource_wasted: float = 0.0
    updates_waiting: int = 0
    unique_clients: int = 0

    def copy(self) -> "Totals":
        return Totals(
            self.server_updates,
            self.client_updates,
            self.late_updates,
            self.client_trips,
            self.local_steps,
            self.resource_used,
            self.resource_wasted,
            self.updates_waiting,
            self.unique_clients,
        )


class TierStep(NamedTuple):
    """A server update in which a tier's model becomes its clients' mean (FedAT). Tiers count from 0, the fastest first.
    ``shares``: of every tier's model in the new global one."""

    tier: int
    shares: list[float]


@dataclass(slots=True)
class ServerUpdate:
    """Version ``version`` comes to be at virtual second ``time`` from ``updates`` (in arrival order) by ``weights``.

    Version 0 is the initial model, made of no updates. ``totals`` are those after this update. ``settled`` are versions
    from which, since the server update before, the last open client update was used or given up.

    A round is named by the version that its clients start from. ``late`` are updates, in arrival order, that since the
    server update before were added to their round's delta, each with weight 1. ``keeps_delta``: this update's own delta
    is kept for late ones. ``closed`` are rounds, in their order, whose deltas became final, and ``dropped`` those that
    nobody will ask for any more. ``teachers`` says which round's delta each teacher is made of that clients which start
    from this version are distilled from, by the teacher's id. ``moves_to_clients``: the global model moves to the
    clients' models rather than along their deltas (FedAsync). ``tree_step`` counts (tree, server updates in it) from
    (0, 1), where noise comes from trees. ``tier``: the updates, all from one version, make a tier's model. ``boost`` is
    beta of RELAY's equation 2: the updates are then fresh ones (staleness 0) first and stale ones after them, and the
    weights, 1 of a fresh one and (1 - beta) / (tau + 1) of a stale one, are neither boosted nor normalised yet.
    """

    version: int
    time: float
    updates: list[Participation]
    weights: list[float]
    totals: Totals
    settled: list[int]
    late: list[Participation] = field(default_factory=list)
    keeps_delta: bool = False
    closed: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    teachers: dict[int, int] = field(default_factory=dict)
    moves_to_clients: bool = False
    tree_step: tuple[int, int] = (0, 0)
    tier: TierStep | None = None
    boost: float | None = None
