"""The driver of a federation under a clock: carries work to silos and updates to the server, and never blocks.

1. What has come from silos is received, in the order in which it was found, before a timer whose moment has come.
2. Whoever was silent for too long is given up.
3. Server updates are applied at once, and only then the work that starts from them is sent.
4. With nothing to do, rank 0 evaluates, in small pieces with all of the above between them.

A killed federation goes on from its last checkpoint: the model, the server's optimiser and output model, what was
recorded, the counts and the seconds elapsed. The scheduler's own state is not kept: it begins afresh from the current
version, and what waited in a buffer or was under way is wasted.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.work import Part, ShardCounts, output_of
from fedhpc.federation.checkpoint import Checkpoint
from fedhpc.federation.recorder import Recorder
from fedhpc.federation.server_model import ServerModel
from fedhpc.federation.updates import Participation, ServerUpdate, Totals
from fedhpc.federation.wall_server import Loss, WallServer

Vector = NDArray[np.float32]


class Silos(Protocol):
    """The ranks that train, each for one client."""

    def give(self, update: Participation, weights: Vector) -> None:
        """Sends the client its work and, unless it has them, the weights to start from."""

    def abandon(self, update: Participation) -> None:
        """Tells the client to stop working on this."""

    def answers(self) -> list[tuple[int, int, Vector]]:
        """What has come, as (client, number of the participation, delta); never waits."""

    def silent(self) -> list[int]:
        """The clients that have just been silent for too long; nothing of theirs is heard from now on."""


class Waiting(Protocol):
    """How to wait for a moment."""

    def over(self) -> None: ...
    def a_moment(self) -> None: ...


Evaluation = Callable[[Vector, int, Callable[[], None]], ShardCounts]
"""Counts of a shard of the held-out examples by these weights; calls the function after every few examples."""


class WallEngine:
    """Rank 0. ``pulse`` is called often; it may save ``checkpoint()``, and raises to end the run. ``is_target`` says of
    an evaluation whether it is good enough to end the federation. ``tell`` is told of each silo that is given up."""

    def __init__(
        self,
        server: WallServer,
        recorder: Recorder,
        model: ServerModel,
        silos: Silos,
        evaluate: Evaluation,
        shards: int,
        rest: Waiting,
        pulse: Callable[["WallEngine"], None],
        is_target: Callable[[Sequence[ShardCounts]], bool] | None = None,
        tell: Callable[[Loss], None] = lambda loss: None,
    ) -> None:
        self.server, self.recorder = server, recorder
        self.evaluated: dict[int, list[ShardCounts]] = {}
        self.newest: ServerUpdate | None = None
        self.reached = False
        self._model, self._silos, self._evaluate, self._shards = model, silos, evaluate, shards
        self._rest, self._pulse, self._is_target, self._tell = rest, pulse, is_target, tell
        self._versions: dict[int, Vector] = {}  # those that clients start from or that the server needs again
        self._deltas: dict[int, Vector] = {}  # by number of the participation: arrived, and still to be used
        self._to_evaluate: deque[tuple[int, Vector]] = deque()
        self._over = False
        self._began = time.perf_counter()

    def run(self) -> None:
        """Lives the federation through. Afterwards ``recorder`` and ``evaluated`` are complete.

        Raises ScheduleError where the silos that are left are too few to go on.
        """
        self._began = time.perf_counter() - self.server.now
        self._follow()  # version 0
        self.server.scheduler.begin(self.server)
        self._follow()
        while not self._over:
            self._pulse(self)
            if self._attend():
                self._rest.over()
            elif self._to_evaluate:
                self._evaluate_one()
                self._rest.over()
            else:
                self._rest.a_moment()
        last = self.recorder.finish()
        if last is not None:
            self._to_evaluate.append((last, self._model.output()))
        while self._to_evaluate:
            self._evaluate_one()

    # The parts of one turn.

    def _attend(self) -> bool:
        """All that cannot wait; true if anything happened."""
        if self._over:
            return False
        moved = False
        for client, number, delta in self._silos.answers():
            moved = self._receive(client, number, delta) or moved
            if self._over:
                return True
        for client in self._silos.silent():
            self._tick()
            self.server.lose(client)
            self._tell(self.server.losses[-1])
            self._follow()
            moved = True
        self._tick()
        end = self.server.budget.virtual_seconds
        if end is not None and self.server.now > end:
            self._over = True
        elif self.server.fire_timer():
            self._follow()
            moved = True
        if not self._over:
            self.server.refuse_to_wait_in_vain()
        return moved

    def _receive(self, client: int, number: int, delta: Vector) -> bool:
        update = self.server.under_way.get(client)
        if update is None or update.number != number:  # it was told to stop, too late
            return False
        if not update.given_up:
            self._deltas[number] = delta
        self._tick()
        self.server.receive(update)
        self._follow()
        return True

    def _tick(self) -> None:
        self.server.now = max(self.server.now, time.perf_counter() - self._began)

    def _follow(self) -> None:
        """Does what the scheduler has decided."""
        server = self.server
        for update in server.take_emitted():
            if self._over:
                break
            self._apply(update)
        kept = {*server.open_updates, server.version}
        self._versions = {version: weights for version, weights in self._versions.items() if version in kept}
        if self._over:
            return
        for abandoned in server.take_abandoned():
            self._silos.abandon(abandoned)
        for started in server.take_started():
            self._silos.give(started, self._versions[started.version])

    def _apply(self, update: ServerUpdate) -> None:
        totals: dict[Part, Vector] = {}
        for client_update, weight in zip(update.updates, update.weights, strict=True):
            delta = self._deltas.pop(client_update.number) * np.float32(weight)
            totals[None] = totals[None] + delta if None in totals else delta
        self._versions[update.version] = self._model.apply(update, totals, self._versions)
        self.newest = update
        if self.recorder.observe(update):
            self._to_evaluate.append((update.version, self._model.output()))
        self._over = self.server.spent()

    def _evaluate_one(self) -> None:
        version, weights = self._to_evaluate[0]
        counts = [self._evaluate(weights, shard, self._between_pieces) for shard in range(self._shards)]
        self._to_evaluate.popleft()
        self.evaluated[version] = counts
        if self._is_target is not None and self._is_target(counts):
            self.reached = self._over = True

    def _between_pieces(self) -> None:
        self._pulse(self)
        while self._attend():
            pass

    # Checkpoints.

    def checkpoint(self) -> Checkpoint:
        """All that a later start needs beside the settings."""
        server, version = self.server, self.server.version
        self._tick()
        return Checkpoint(
            version=version,
            versions={version: self._versions[version]}
            | {output_of(waiting): weights for waiting, weights in self._to_evaluate},
            assemblies={},
            server=self._model.state(),
            deltas=self._model.deltas,
            evaluated=dict(self.evaluated),
            coreset_errors={},
            clock={
                "seconds": server.now,
                "totals": asdict(server.totals_if_interrupted()),
                "participations": list(server.participations.items()),
                "aggregated": list(server.aggregated.items()),
                "losses": [asdict(loss) for loss in server.losses],
                "recorded": self.recorder.state(),
                "waiting": [waiting for waiting, _ in self._to_evaluate],
            },
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint; call it before ``run()``."""
        kept: Mapping[str, Any] = checkpoint.clock
        self.server.go_on(
            kept["seconds"],
            checkpoint.version,
            Totals(**kept["totals"]),
            dict(kept["participations"]),
            dict(kept["aggregated"]),
            [Loss(**loss) for loss in kept["losses"]],
        )
        self._model.restore(checkpoint.server)
        self._versions = {checkpoint.version: checkpoint.versions[checkpoint.version]}
        self.recorder.restore(kept["recorded"])
        self.newest = self.recorder.last
        self.evaluated = dict(checkpoint.evaluated)
        self._to_evaluate.extend((version, checkpoint.versions[output_of(version)]) for version in kept["waiting"])
