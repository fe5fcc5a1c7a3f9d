"""Losses that a scheduler reads: what there is to read where nothing was measured, and where nothing trains."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedhpc.federation.schedule import make_schedule
from tests.federations import Federation, by_the_papers
from tests.relay import RELAY, with_relay


def used(federation: Federation, losses: dict[tuple[int, int], float] | None = None) -> list[tuple[int, int]]:
    """Whose updates make the server updates of the schedule played alone, with losses made up or given."""
    schedule = make_schedule(federation.settings, federation.data.population)
    if losses is not None:
        schedule.losses = losses
    return [(one.client, one.participation) for update in schedule.server_updates() for one in update.updates]


def test_a_schedule_is_played_alone_with_losses_made_up_and_in_a_run_with_those_measured(
    tiny: Callable[..., Path],
) -> None:
    federation = Federation.of(tiny(with_relay), "oort")
    engine = federation.engine()
    engine.run()
    measured = dict(engine.schedule.losses)
    assert list(measured) == used(federation, measured)
    assert all(0 < loss < math.inf for loss in measured.values())
    # Four classes: ln(4)^2 is about 1.9, and less is left to be learned with time.
    losses = np.array([*measured.values()])
    assert losses[-10:].mean() < losses[:5].mean()
    # They matter: others give another course of events.
    assert used(federation) != used(federation, measured)


def test_a_diverged_model_ends_no_federation(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        with_relay(settings)
        settings["client"]["optimizer"]["rate"] = 1e20

    federation = Federation.of(tiny(change), "oort")
    engine = federation.engine()
    engine.run()
    assert not np.isfinite(engine.output()).all()
    assert engine.recorder.evaluations({})["client_updates"][-1] >= 60
    losses = [*engine.schedule.losses.values()]
    assert losses[0] > 0
    assert losses[-1] == 0
    assert engine.checkpoint().losses == engine.schedule.losses


def test_a_client_without_an_example_has_nothing_left_to_learn(tiny: Callable[..., Path]) -> None:
    def change(settings: dict[str, Any]) -> None:
        with_relay(settings)
        settings["task"]["partition"] = {"kind": "iid", "clients": 180}  # of 171 examples
        settings["algorithms"]["oort"] = RELAY["oort"] | {"cohort": 175, "over_selection": 180}
        settings["budget"] = {"client_updates": 350}

    federation = Federation.of(tiny(change), "oort")
    output, _ = by_the_papers(federation)
    engine = federation.engine()
    engine.run()
    np.testing.assert_allclose(engine.output(), output, rtol=1e-4, atol=1e-5)
    examples = federation.data.population.examples
    assert (examples == 0).any()
    assert all((loss == 0) == (examples[client] == 0) for (client, _), loss in engine.schedule.losses.items())
