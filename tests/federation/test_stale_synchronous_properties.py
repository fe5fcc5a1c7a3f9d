"""What holds of every stale synchronous federation, whoever comes and goes."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fedhpc.budget import Budget
from fedhpc.federation.schedulers.stale_synchronous import StaleSynchronousSettings
from fedhpc.federation.synthetic_losses import SyntheticLosses
from fedhpc.federation.updates import Participation, ServerUpdate
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.latency.availability import Availability
from tests.federation.online import algorithm, online, server_of

SELECTIONS = ["uniform", "by_examples", "priority", "oort", "everybody"]


@dataclass(kw_only=True)
class Watched(VirtualServer):
    """Keeps what happens to every participation, and sees that nobody is started who is busy or offline."""

    all: list[Participation] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    came_in_vain: set[int] = field(default_factory=set)
    seconds: float = 0.0
    seconds_in_vain: float = 0.0

    def start(self, clients: Sequence[int], *others: Any, **named: Any) -> list[Participation]:
        assert len(set(clients)) == len(clients)
        assert self.busy.isdisjoint(clients)
        assert self.availability is None or self.availability.online(self.now)[list(clients)].all()
        self.busy |= set(clients)
        started = super().start(clients, *others, **named)
        self.all += started
        return started

    def receive(self, update: Participation) -> None:
        assert self.now == update.arrives
        self.seconds += self.now - update.started
        if update.given_up:
            self.seconds_in_vain += self.now - update.started
            self.came_in_vain.add(update.number)
            self.busy.remove(update.client)
        super().receive(update)

    def drop_out(self, update: Participation) -> None:
        assert self.now < update.arrives
        self.seconds += self.now - update.started
        self.seconds_in_vain += self.now - update.started
        self.dropped.add(update.number)
        self.busy.remove(update.client)
        super().drop_out(update)

    def aggregate(self, updates: list[Participation], *others: Any, **named: Any) -> None:
        self.busy -= {update.client for update in updates}
        super().aggregate(updates, *others, **named)


@st.composite
def availabilities(draw: st.DrawFn, clients: int) -> Availability | None:
    if draw(st.booleans()):
        return None
    moments = st.lists(st.integers(0, 150), min_size=2, max_size=12, unique=True)
    intervals = []
    for _ in range(clients):
        found = sorted(draw(moments))
        intervals.append([*zip(found[::2], found[1::2], strict=False)])
    return online(*intervals)


@st.composite
def algorithms(draw: st.DrawFn, clients: int) -> StaleSynchronousSettings:
    kind = draw(st.sampled_from(SELECTIONS))
    chosen: dict[str, Any] = {"selection": {"kind": kind}, "deadline": draw(st.sampled_from([None, 5.0, 12.0]))}
    rule = draw(st.sampled_from(["equal", "dynsgd", "adasgd", "relay"]))
    if draw(st.booleans()):
        chosen["stale"] = {"weighting": rule, "threshold": draw(st.sampled_from([None, 1, 2, 5]))}
    if kind == "everybody":
        return algorithm(**chosen, target_ratio=draw(st.sampled_from([0.1, 0.5, 0.9])))
    chosen["cohort"] = cohort = draw(st.integers(1, clients - 1))
    chosen["over_selection"] = draw(st.integers(cohort + 1, clients))
    chosen["target_ratio"] = draw(st.sampled_from([None, 0.5]))
    chosen["adaptive_target"] = "stale" in chosen and draw(st.booleans())
    if kind == "priority":
        chosen["selection"]["rest"] = draw(st.integers(0, 2))
    return algorithm(**chosen)


@st.composite
def federations(draw: st.DrawFn) -> tuple[StaleSynchronousSettings, list[int], Availability | None, int]:
    clients = draw(st.integers(2, 9))
    examples = draw(st.lists(st.integers(1, 25), min_size=clients, max_size=clients))
    return draw(algorithms(clients)), examples, draw(availabilities(clients)), draw(st.integers(0, 99))


def played(
    chosen: StaleSynchronousSettings, examples: list[int], there: Availability | None, seed: int
) -> tuple[Watched, list[ServerUpdate]]:
    server = server_of(chosen, examples, Budget(virtual_seconds=140, server_updates=60), there, Watched, seed)
    assert isinstance(server, Watched)
    server.losses = SyntheticLosses(0, 0)
    updates = list(server.server_updates())
    event(f"{min(len(updates), 11) - 1} server updates")
    event("dropouts" if server.dropped else "no dropouts")
    event("in vain" if server.came_in_vain else "nothing in vain")
    return server, updates


def again(there: Availability | None) -> Availability | None:
    """The same clients at second 0."""
    return None if there is None else Availability(*there.intervals)


@settings(max_examples=300, deadline=None)
@given(federations())
def test_every_update_has_one_fate_and_every_second_is_accounted_for(case: Any) -> None:
    chosen, examples, there, seed = case
    server, updates = played(chosen, examples, there, seed)
    totals, threshold = server.totals, math.inf
    if chosen.stale is None:
        threshold = 0
    elif chosen.stale.threshold is not None:
        threshold = chosen.stale.threshold
    used = [one for update in updates for one in update.updates]
    assert max(Counter(one.number for one in used).values(), default=0) <= 1
    assert all(one.staleness <= threshold and not one.given_up for one in used)
    assert not server.dropped & {one.number for one in used}

    # Uploads are used, waiting, or were given up.
    assert totals.client_updates == len(used)
    assert totals.client_trips == totals.client_updates + totals.updates_waiting + len(server.came_in_vain)

    assert totals.resource_used == pytest.approx(server.seconds)
    assert totals.resource_wasted == pytest.approx(server.seconds_in_vain)
    assert totals.resource_used >= totals.resource_wasted >= 0

    for update in updates[1:]:
        assert update.updates
        late = [one.staleness > 0 for one in update.updates]
        assert late == sorted(late)
        for group in (False, True):
            arrivals = [one.arrives for one in update.updates if (one.staleness > 0) is group]
            assert arrivals == sorted(arrivals)
        assert all(one.arrives <= update.time for one in update.updates)
        if update.boost is None:
            assert sum(update.weights) == pytest.approx(1)
        else:
            assert all(weight == 1 for weight, is_late in zip(update.weights, late, strict=True) if not is_late)


@settings(max_examples=150, deadline=None)
@given(federations())
def test_an_oracle_changes_nothing_but_what_is_paid(case: Any) -> None:
    chosen, examples, there, seed = case
    server, updates = played(chosen, examples, there, seed)
    foreseeing, same = played(chosen.model_copy(update={"oracle": True}), examples, again(there), seed)
    assert [(one.number, one.client, one.started, one.arrives) for one in server.all] == [
        (one.number, one.client, one.started, one.arrives) for one in foreseeing.all
    ]
    for update, foreseen in zip(updates, same, strict=True):
        assert (update.time, update.weights) == (foreseen.time, foreseen.weights)
        assert [one.number for one in update.updates] == [one.number for one in foreseen.updates]
        assert foreseen.totals.resource_wasted == 0
        useful = update.totals.resource_used - update.totals.resource_wasted
        assert foreseen.totals.resource_used == pytest.approx(useful, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(federations())
def test_the_same_seed_gives_the_same_schedule(case: Any) -> None:
    chosen, examples, there, seed = case
    _, first = played(chosen, examples, there, seed)
    _, second = played(chosen, examples, again(there), seed)
    assert [(one.time, one.weights, one.totals) for one in first] == [
        (one.time, one.weights, one.totals) for one in second
    ]
    assert np.isfinite([update.time for update in first]).all()
