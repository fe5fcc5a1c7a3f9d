"""Law 1: how long a client takes depends on seed and configuration only, never on how fast a rank computes."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedhpc.federation.engine import Engine
from fedhpc.federation.schedule import make_schedule
from tests.federations import Federation, Ranks


def moments(federation: Federation, engine: Engine) -> list[float]:
    engine.run()
    return engine.recorder.evaluations({})["time"].tolist()


@pytest.mark.parametrize("algorithm", ["over", "fedbuff"])
def test_slow_ranks_change_no_moment(tiny: Callable[..., Path], algorithm: str) -> None:
    federation = Federation.of(tiny(), algorithm)
    alone = moments(federation, federation.engine())
    late = Ranks(federation.training(), random.Random(1))
    with_late_ranks = moments(
        federation, federation.engine(late, pulse=lambda engine: time.sleep(random.random() * 1e-3))
    )
    assert alone == with_late_ranks


def test_algorithms_that_start_the_same_client_see_the_same_latency(tiny: Callable[..., Path]) -> None:
    # The stream is keyed by (trial seed, client, participation) and by nothing else, the algorithm included.
    file = tiny()
    durations: dict[str, dict[tuple[int, int], float]] = {}
    for algorithm in ("fedavg", "fedbuff"):
        federation = Federation.of(file, algorithm)
        durations[algorithm] = {
            (client.client, client.participation): client.arrives - client.started
            for update in make_schedule(federation.settings, federation.data.population).server_updates()
            for client in update.updates
        }
    common = durations["fedavg"].keys() & durations["fedbuff"].keys()
    assert len(common) > 20
    assert all(
        durations["fedavg"][key] == pytest.approx(durations["fedbuff"][key], rel=1e-12, abs=1e-9) for key in common
    )
