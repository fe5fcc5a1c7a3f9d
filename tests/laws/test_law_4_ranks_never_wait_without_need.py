"""Law 4: earliest needed first, as far ahead as the events allow; what is over is forgotten; an idle rank rests."""

import random
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from fedhpc.federation.engine import Engine
from tests.federations import Federation, Own, Ranks, trained
from tests.mpi import mpi
from tests.relay import RELAY, with_relay


def test_work_goes_out_in_the_order_of_its_need(tiny: Callable[..., Path]) -> None:
    federation = Federation.of(tiny(), "fedbuff")
    own = Own(federation.training())
    seen: list[tuple[int, int]] = []

    def pulse(engine: Engine) -> None:
        seen.append((engine.applied, len(engine._to_train)))

    federation.engine(own=own, pulse=pulse).run()
    # Every update of the versions that exist and whose use is certain lies ready: more than one server update's worth.
    assert max(ready for _, ready in seen) > 3
    # Of the updates that start from one version, those of earlier server updates are computed first, and of those that
    # make one server update together, the longest.
    by_version: dict[int, list[tuple[int, int]]] = {}
    for work in trained(own.done):
        (member,) = work.members
        by_version.setdefault(member.version, []).append((work.makes, -member.steps))
    assert len(by_version) > 5
    for urgencies in by_version.values():
        assert urgencies == sorted(urgencies)


@pytest.mark.parametrize("algorithm", RELAY)
def test_only_a_scheduler_that_reads_losses_is_not_played_ahead(tiny: Callable[..., Path], algorithm: str) -> None:
    federation = Federation.of(tiny(with_relay), algorithm)
    ahead: list[int] = []
    idle: list[bool] = []

    def pulse(engine: Engine) -> None:
        ahead.append(engine.schedule.version - max(engine.applied, 0))
        idle.append(not engine._to_train and not engine._computing)

    federation.engine(Ranks(federation.training(), random.Random(0)), pulse=pulse).run()
    reads = algorithm.startswith("oort")
    assert (max(ahead) == 1) == reads
    # There is work at every turn, but for the one in which rank 0 has done the last piece itself.
    first, last = idle.index(False), len(idle) - idle[::-1].index(False)
    assert not any(both == (True, True) for both in pairwise(idle[first:last]))


@pytest.mark.parametrize("algorithm", ["over", "fedbuff"])
def test_versions_live_no_longer_than_they_are_used(tiny: Callable[..., Path], algorithm: str) -> None:
    federation = Federation.of(tiny(), algorithm)
    ranks = Ranks(federation.training(), random.Random(0))
    live: list[int] = []
    engine = federation.engine(ranks, pulse=lambda engine: live.append(len(engine._versions)))
    engine.run()
    assert not engine._versions
    assert ranks.forgotten == set(range(engine.applied + 1))
    # Eight clients train at a time and four evaluations may wait: no more versions than that can be of use, and one.
    assert max(live) <= 8 + 4 + 1


def test_an_idle_rank_leaves_its_core_to_others() -> None:
    # Rank 1 waits two seconds for rank 0. A blocked receive would burn them whole.
    program = """
import time
from mpi4py import MPI
from fedhpc.ranks.world import wait_for_all
world = MPI.COMM_WORLD
if world.rank == 0:
    time.sleep(2)
start = time.process_time()
wait_for_all(world)
if world.rank == 1:
    print("cpu", time.process_time() - start)
"""
    finished = mpi(2, [sys.executable, "-c", program])
    assert finished.returncode == 0, finished.stderr
    assert float(finished.stdout.split()[1]) < 0.5


def test_a_version_travels_to_a_rank_once() -> None:
    # Rank 0 gives rank 1 six pieces of work of two versions and counts the messages that it sends.
    program = """
import numpy as np
from mpi4py import MPI
from fedhpc.clients.work import Evaluate
from fedhpc.ranks.mailbox import Inbox
from fedhpc.ranks.messages import Kind
from fedhpc.ranks.pool import TrainingRanks
world = MPI.COMM_WORLD
if world.rank == 0:
    ranks = TrainingRanks(world)
    for version in (0, 1):
        for shard in range(3):
            ranks.give(1, Evaluate(version, shard), {version: np.full(5, version, np.float32)})
    ranks.forget(0)
    ranks.stop()
else:
    kinds, inbox = [], Inbox(world, 0)
    while not kinds or kinds[-1] is not Kind.STOP:
        message = inbox.receive()
        if message is not None:
            kinds.append(message.kind)
    print(*[kind.name for kind in kinds])
"""
    finished = mpi(2, [sys.executable, "-c", program])
    assert finished.returncode == 0, finished.stderr
    once = "VERSION EVALUATE EVALUATE EVALUATE"
    assert finished.stdout.split() == f"{once} {once} FORGET STOP".split()
