"""Law 2: computed anywhere, at any moment between start and arrival, and never if nobody will read it."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedhpc.federation.schedule import make_schedule
from tests.federations import DENSE, Federation, Own, Ranks, alone, reference, trained
from tests.relay import RELAY, with_relay

ALGORITHMS = ["fedavg", "over", "prox", "fedbuff"]


@pytest.mark.parametrize("algorithm", ["fedavg", "prox"])
def test_history_leaves_no_trace(tiny: Callable[..., Path], algorithm: str) -> None:
    federation = Federation.of(tiny(), algorithm)
    fresh, used = federation.training(), federation.training()
    weights = fresh.initial_weights()
    expected = alone(fresh, weights, 11, 2, 8)
    for client in range(12):
        alone(used, weights + client, client, client, 3)
    used.evaluate(weights, 0)
    assert alone(used, weights, 11, 2, 8).tobytes() == expected.tobytes()
    assert alone(used, weights, 11, 3, 8).tobytes() != expected.tobytes()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_engine_computes_what_is_aggregated_and_nothing_else(tiny: Callable[..., Path], algorithm: str) -> None:
    federation = Federation.of(tiny(), algorithm)
    own = Own(federation.training())
    engine = federation.engine(own=own)
    engine.run()
    computed = [
        (member.client, member.participation, member.steps) for work in trained(own.done) for member in work.members
    ]
    used = [
        (participation.client, participation.participation, participation.steps)
        for update in make_schedule(federation.settings, federation.data.population).server_updates()
        for participation in update.updates
    ]
    assert sorted(computed) == sorted(used)
    totals = engine.recorder.evaluations({})
    if algorithm == "over":
        assert totals["resource_wasted"][-1] > 0  # thrown away in virtual time, never computed


@pytest.mark.parametrize("algorithm", RELAY)
@pytest.mark.parametrize(("stack", "scenario"), [(1, "domain"), (3, "dynavail")])
def test_updates_that_come_too_late_or_never_are_not_computed(
    tiny: Callable[..., Path], algorithm: str, stack: int, scenario: str
) -> None:
    federation = Federation.of(tiny(with_relay), algorithm, scenario)
    federation.choice = DENSE.model_copy(update={"clients": stack})
    own, ranks = Own(federation.training()), Ranks(federation.training(), random.Random(algorithm))
    engine = federation.engine(ranks, own=own)
    engine.run()
    computed = [
        (member.client, member.participation) for work in trained([*own.done, *ranks.given]) for member in work.members
    ]
    replayed = make_schedule(federation.settings, federation.data.population)
    replayed.losses = engine.schedule.losses
    used = [
        (one.client, one.participation) for update in replayed.server_updates() for one in update.updates if one.steps
    ]
    assert sorted(computed) == sorted(used)
    totals = replayed.totals
    assert len(computed) <= totals.client_updates
    # SAFA's rounds start all who are free, and what comes too late has cost the clients and nobody here.
    if algorithm in ("safa", "oort_alone"):
        assert totals.resource_wasted > 0
        assert sum(replayed.participations.values()) > len(computed) + len(replayed.open_updates)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(4))
def test_answers_in_any_order_give_the_reference_bit_by_bit(
    tiny: Callable[..., Path], algorithm: str, seed: int
) -> None:
    federation = Federation.of(tiny(), algorithm)
    weights, evaluations, _ = reference(federation)
    engine = federation.engine(Ranks(federation.training(), random.Random(seed)))
    engine.run()
    assert engine.checkpoint().server["weights"].tobytes() == weights.tobytes()
    assert engine.evaluated == evaluations
    assert np.isfinite(weights).all()
