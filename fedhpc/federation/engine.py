"""Real time: a schedule's client updates computed on the ranks, and its server updates applied.

The schedule is played ahead of the training, so that work goes out as soon as its use is certain and its version
exists, earliest needed first (laws 2 and 4). Client updates may come back in any order; a server update is applied
when all of its own have come, in the order of their virtual arrivals, so that the numbers depend on the schedule only
(law 3).
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.work import Answer, Evaluate, Evaluated, ShardCounts, Train, Trained, Work
from fedhpc.federation.aggregation import Aggregator
from fedhpc.federation.checkpoint import Checkpoint
from fedhpc.federation.recorder import Recorder
from fedhpc.federation.virtual_server import Participation, ServerUpdate, VirtualServer

Vector = NDArray[np.float32]

_Needed = tuple[int, int, int, Train]
"""A client update by its urgency: the server version that waits for it; of those for one version, which wait for each
other, the longest first, so that ranks end a round together; then its number."""

_LOOK_AHEAD = 4096
"""Server updates, and client updates known to be needed, beyond which the schedule is not played further for now."""

_EVALUATIONS_WAITING = 4
"""Versions that may wait for their evaluation before it takes precedence over training; each keeps its weights."""


class Own(Protocol):
    """Rank 0's own training."""

    def do(self, work: Work, weights: Vector, between_steps: Callable[[], None]) -> Answer: ...


class Others(Protocol):
    """The training ranks; none where the federation has one rank."""

    def next_free(self, *, must_be_idle: bool) -> int | None: ...
    def give(self, rank: int, work: Work, weights: Vector) -> None: ...
    def forget(self, version: int) -> None: ...
    def answers(self) -> list[Answer]: ...


class Waiting(Protocol):
    """How to wait for an answer."""

    def over(self) -> None: ...
    def a_moment(self) -> None: ...


class Engine:
    """Rank 0. ``pulse`` is called often; it may save ``checkpoint()``, and raises to end the run."""

    def __init__(
        self,
        schedule: VirtualServer,
        recorder: Recorder,
        aggregator: Aggregator,
        own: Own,
        others: Others,
        rest: Waiting,
        shards: int,
        pulse: Callable[["Engine"], None],
    ) -> None:
        self.schedule, self.recorder = schedule, recorder
        self.evaluated: dict[int, list[ShardCounts]] = {}
        self.applied = -1  # the newest version that exists
        self.newest: ServerUpdate | None = None  # the update that made it
        self._aggregator, self._own, self._others, self._rest = aggregator, own, others, rest
        self._shards, self._pulse = shards, pulse
        self._updates = schedule.server_updates()
        self._played_out = False
        self._versions: dict[int, Vector] = {}
        self._upcoming: deque[ServerUpdate] = deque()
        self._missing: dict[int, int] = {}  # version to be made -> its client updates not yet received
        self._computing: dict[int, tuple[int, int]] = {}  # number -> (version to be made, version to start from)
        self._deltas: dict[int, Vector] = {}  # received and not yet aggregated, by number
        self._known = 0  # client updates in _upcoming that are still to be computed
        self._to_train: list[_Needed] = []  # a heap, earliest needed first; the version to start from exists
        self._for_later: dict[int, list[_Needed]] = {}  # by version to start from, which does not exist yet
        self._uses: dict[int, int] = {}  # version -> client updates to compute and shards to evaluate from it
        self._to_evaluate: deque[Evaluate] = deque()
        self._shard_counts: dict[int, dict[int, ShardCounts]] = {}
        self._wanted: set[int] = set()  # versions to be evaluated
        self._own_busy = False

    def run(self) -> None:
        """Lives the federation through. Afterwards ``recorder`` and ``evaluated`` are complete."""
        while not self._done():
            self._pulse(self)
            if self._advance():
                self._rest.over()
            elif (work := self._next_work()) is not None:
                self._own_busy = True
                answer = self._own.do(work, self._versions[work.version], self._between_steps)
                self._own_busy = False
                self._accept(answer)
                self._rest.over()
            else:
                self._rest.a_moment()

    # The parts of one turn.

    def _done(self) -> bool:
        return self._played_out and not self._upcoming and not self._wanted

    def _advance(self) -> bool:
        """All that costs no training; true if anything moved."""
        moved = False
        for answer in self._others.answers():
            self._accept(answer)
            moved = True
        while not self._played_out and max(self._known, len(self._upcoming)) < _LOOK_AHEAD:
            self._look_ahead()
            moved = True
        while self._upcoming and not self._missing[self._upcoming[0].version]:
            self._apply(self._upcoming.popleft())
            moved = True
        return self._hand_out() or moved

    def _between_steps(self) -> None:
        """Rank 0 is training: it looks up for what has come back, and otherwise goes straight on."""
        self._pulse(self)
        answers = self._others.answers()
        for answer in answers:
            self._accept(answer)
        if answers:
            self._advance()

    def _look_ahead(self) -> None:
        update = next(self._updates, None)
        if update is None:
            self._played_out = True
            last = self.recorder.finish()
            if last is not None:
                self._want(last)
            for version in list(self._versions):
                self._release(version)
            return
        if self.recorder.observe(update):
            self._want(update.version)
        if update.version <= self.applied:  # played again after a checkpoint
            self.newest = update
        else:
            self._upcoming.append(update)
            self._missing[update.version] = 0
            for participation in update.updates:
                if participation.steps and participation.number not in self._deltas:
                    self._need(participation, update.version)
        for version in update.settled:
            self._release(version)

    def _need(self, participation: Participation, makes: int) -> None:
        self._missing[makes] += 1
        self._computing[participation.number] = (makes, participation.version)
        self._known += 1
        self._uses[participation.version] = self._uses.get(participation.version, 0) + 1
        work = Train(
            participation.number,
            participation.version,
            participation.client,
            participation.participation,
            participation.steps,
        )
        needed = (makes, -work.steps, work.number, work)
        if participation.version in self._versions:
            heappush(self._to_train, needed)
        else:
            self._for_later.setdefault(participation.version, []).append(needed)

    def _apply(self, update: ServerUpdate) -> None:
        """The server update whose client updates have all come."""
        del self._missing[update.version]
        if update.version:
            trained = [
                (self._deltas.pop(participation.number), weight)
                for participation, weight in zip(update.updates, update.weights, strict=True)
                if participation.steps
            ]
            weights = self._aggregator.step([delta for delta, _ in trained], [weight for _, weight in trained])
        else:
            weights = self._aggregator.weights()
        self.applied, self.newest = update.version, update
        self._versions[update.version] = weights
        for needed in self._for_later.pop(update.version, []):
            heappush(self._to_train, needed)
        if update.version in self._wanted:
            self._queue_evaluation(update.version)
        self._release(update.version - 1)
        self._release(update.version)

    def _hand_out(self) -> bool:
        """Work for the training ranks. The last piece is left to rank 0 unless a rank would otherwise idle."""
        moved = False
        while self._to_train or self._to_evaluate:
            rank = self._others.next_free(must_be_idle=len(self._to_train) <= 1 and not self._own_busy)
            if rank is None:
                break
            work = self._next_work()
            assert work is not None
            self._others.give(rank, work, self._versions[work.version])
            moved = True
        return moved

    def _next_work(self) -> Work | None:
        crowded = len(self._to_evaluate) > _EVALUATIONS_WAITING * self._shards
        if self._to_train and not crowded:
            return heappop(self._to_train)[3]
        return self._to_evaluate.popleft() if self._to_evaluate else None

    def _accept(self, answer: Answer) -> None:
        if isinstance(answer, Trained):
            makes, started_from = self._computing.pop(answer.number)
            self._deltas[answer.number] = answer.delta
            self._missing[makes] -= 1
            self._known -= 1
            self._used(started_from)
        else:
            self._counted(answer)

    def _counted(self, answer: Evaluated) -> None:
        counts = self._shard_counts[answer.version]
        counts[answer.shard] = answer.counts
        if len(counts) == self._shards:
            self.evaluated[answer.version] = [counts[shard] for shard in range(self._shards)]
            del self._shard_counts[answer.version]
            self._wanted.remove(answer.version)
        self._used(answer.version)

    # Evaluation and the life of versions.

    def _want(self, version: int) -> None:
        """This version is to be evaluated, unless that is done."""
        if version in self.evaluated:
            return
        self._wanted.add(version)
        if version in self._versions:
            self._queue_evaluation(version)

    def _queue_evaluation(self, version: int) -> None:
        self._shard_counts[version] = {}
        self._uses[version] = self._uses.get(version, 0) + self._shards
        self._to_evaluate.extend(Evaluate(version, shard) for shard in range(self._shards))

    def _used(self, version: int) -> None:
        self._uses[version] -= 1
        self._release(version)

    def _release(self, version: int) -> None:
        """Forgets a version that nothing will start from, train from or evaluate any more."""
        if version not in self._versions or self._uses.get(version):
            return
        may_start = version >= self.schedule.version or version in self.schedule.open_updates
        if may_start and not self._played_out:
            return
        self._uses.pop(version, None)
        del self._versions[version]
        self._others.forget(version)

    # Checkpoints.

    def checkpoint(self) -> Checkpoint:
        """All that a later start needs beside the settings; the schedule is played again from its beginning."""
        return Checkpoint(
            version=self.applied,
            versions=dict(self._versions),
            deltas=dict(self._deltas),
            server=self._aggregator.state(),
            evaluated=dict(self.evaluated),
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint; call it before ``run()``."""
        self.applied = checkpoint.version
        self._versions, self._deltas = dict(checkpoint.versions), dict(checkpoint.deltas)
        self._aggregator.restore(checkpoint.server)
        self.evaluated = dict(checkpoint.evaluated)
