"""Real time: a schedule's client updates computed on the ranks, and its server updates applied.

The schedule is played ahead of the training, so that work goes out as soon as its use is certain and its version
exists, earliest needed first (laws 2 and 4). Client updates are computed in stacks, which may come back in any order; a
server update is applied when all of its own have come, added up in an order that depends on the schedule only (law 3).
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.work import (
    Answer,
    Evaluate,
    Evaluated,
    ShardCounts,
    Train,
    Trained,
    Work,
    is_teacher,
    output_of,
    version_of,
)
from fedhpc.federation.assembly import Assembly
from fedhpc.federation.checkpoint import Checkpoint
from fedhpc.federation.recorder import Recorder
from fedhpc.federation.server_model import ServerModel
from fedhpc.federation.stacks import stacks_of
from fedhpc.federation.updates import ServerUpdate
from fedhpc.federation.virtual_server import VirtualServer

Vector = NDArray[np.float32]

Versions = Mapping[int, Vector]

_Needed = tuple[int, int, int, Train]
"""A stack by its urgency: the server version that waits for it; of those for one version, which wait for each other,
the longest first, so that ranks end a round together; then its place."""

_LOOK_AHEAD = 4096
"""Server updates, and client updates known to be needed, beyond which the schedule is not played further for now. A
schedule that reads losses is not played beyond a server update that is still to be made."""

_EVALUATIONS_WAITING = 4
"""Versions that may wait for their evaluation before it takes precedence over training; each keeps its weights."""


class Own(Protocol):
    """Rank 0's own training."""

    def do(self, work: Work, versions: Versions, between_steps: Callable[[], None]) -> Answer: ...


class Others(Protocol):
    """The training ranks; none where the federation has one rank."""

    def next_free(self, *, must_be_idle: bool) -> int | None: ...
    def give(self, rank: int, work: Work, versions: Versions) -> None: ...
    def forget(self, version: int) -> None: ...
    def answers(self) -> list[Answer]: ...
    @property
    def busy(self) -> bool: ...


class Waiting(Protocol):
    """How to wait for an answer."""

    def over(self) -> None: ...
    def a_moment(self) -> None: ...


class Engine:
    """Rank 0. Up to ``stack`` clients train together, and held-out examples come in ``shards`` pieces. ``pulse`` is
    called often; it may save ``checkpoint()``, and raises to end the run. ``is_target`` says of an evaluation whether
    it is good enough to end the federation with it."""

    def __init__(
        self,
        schedule: VirtualServer,
        recorder: Recorder,
        model: ServerModel,
        own: Own,
        others: Others,
        rest: Waiting,
        shards: int,
        stack: int,
        pulse: Callable[["Engine"], None],
        is_target: Callable[[Sequence[ShardCounts]], bool] | None = None,
    ) -> None:
        self.schedule, self.recorder = schedule, recorder
        self.evaluated: dict[int, list[ShardCounts]] = {}
        self.coreset_errors: dict[int, float] = {}  # the mean over an update's coresets, by the version that it made
        self.applied = -1  # the newest version that exists
        self.newest: ServerUpdate | None = None  # the update that made it
        self.reached: int | None = None  # the first version whose evaluation is the target
        self._model, self._own, self._others, self._rest = model, own, others, rest
        self._shards, self._stack, self._pulse, self._is_target = shards, stack, pulse, is_target
        schedule.losses = {}  # what is measured, and nothing else
        self._updates = schedule.server_updates()
        self._played_out = False
        self._versions: dict[int, Vector] = {}  # by id: server versions, teachers in use, output models to evaluate
        self._upcoming: deque[ServerUpdate] = deque()
        self._missing: dict[int, int] = {}  # version to be made -> its stacks not yet received
        self._computing: dict[tuple[int, int], Train] = {}  # by version to be made and place
        self._assemblies: dict[int, Assembly] = {}  # by version to be made
        self._known = 0  # client updates in _upcoming that are still to be computed
        self._to_train: list[_Needed] = []  # a heap, earliest needed first; the versions to start from exist
        self._for_later: dict[int, list[_Needed]] = {}  # by the version that does not exist yet
        self._uses: dict[int, int] = {}  # id -> stacks to compute, shards to evaluate, server updates to make from it
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
                self._accept(self._do(work))
                self._rest.over()
            else:
                self._rest.a_moment()
        while self._others.busy:  # what is under way where the target ended the federation
            self._others.answers()
            self._rest.a_moment()

    # The parts of one turn.

    def _done(self) -> bool:
        if self.reached is not None and self.newest is not None and self.newest.version >= self.reached:
            # Those before it are evaluated first: one of them may be the target too.
            return all(version > self.reached for version in self._wanted)
        return self._played_out and not self._upcoming and not self._wanted

    def _advance(self) -> bool:
        """All that costs no training; true if anything moved."""
        moved = False
        for answer in self._others.answers():
            self._accept(answer)
            moved = True
        while self._upcoming and not self._missing[self._upcoming[0].version]:
            self._apply(self._upcoming.popleft())
            moved = True
        while self._may_look_ahead():
            self._look_ahead()
            moved = True
        return self._hand_out() or moved

    def _may_look_ahead(self) -> bool:
        most = 1 if self.schedule.reads_losses else _LOOK_AHEAD
        return not self._played_out and len(self._upcoming) < most and self._known < _LOOK_AHEAD

    def _do(self, work: Work) -> Answer:
        self._make_teachers(work)
        self._own_busy = True
        answer = self._own.do(work, self._versions, self._between_steps)
        self._own_busy = False
        return answer

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
            self.newest = update if update.version == self.applied else None
        else:
            self._upcoming.append(update)
            self._missing[update.version] = 0
            for start in self._starts_for_the_server(update):
                self._uses[start] = self._uses.get(start, 0) + 1
            assembly = self._assemblies.setdefault(update.version, Assembly())
            for stack in stacks_of(update, self._stack):
                if not assembly.has(stack.place):
                    self._need(stack)
        for version in update.settled:
            self._release(version)

    def _need(self, stack: Train) -> None:
        self._missing[stack.makes] += 1
        self._computing[stack.makes, stack.place] = stack
        self._known += len(stack.members)
        versions = stack.versions
        for version in versions:
            self._uses[version] = self._uses.get(version, 0) + 1
        needed = (stack.makes, -sum(member.steps for member in stack.members), stack.place, stack)
        # Older versions are kept while anything starts from them, so that only the newest can be yet to come.
        if versions[-1] in self._versions:
            heappush(self._to_train, needed)
        else:
            self._for_later.setdefault(versions[-1], []).append(needed)

    def _apply(self, update: ServerUpdate) -> None:
        """The server update whose client updates have all come."""
        del self._missing[update.version]
        assembly = self._assemblies.pop(update.version)
        self._versions[update.version] = self._model.apply(update, assembly.totals, self._versions)
        if (error := assembly.coreset_error) is not None:
            self.coreset_errors[update.version] = error
        if self.schedule.reads_losses:
            # Nothing is to be learned from who has no example, nor with a model that has diverged.
            nothing = {(one.client, one.participation): 0.0 for one in update.updates}
            measured = {key: loss for key, loss in assembly.losses.items() if math.isfinite(loss)}
            self.schedule.losses.update(nothing | measured)
        self.applied, self.newest = update.version, update
        for start in self._starts_for_the_server(update):
            self._used(start)
        for needed in self._for_later.pop(update.version, []):
            heappush(self._to_train, needed)
        if update.version in self._wanted:
            self._queue_evaluation(update.version)
        self._release(update.version - 1)
        self._release(update.version)

    def _starts_for_the_server(self, update: ServerUpdate) -> list[int]:
        """Versions that the server itself needs again to make this update."""
        if update.moves_to_clients:
            return [client_update.version for client_update in update.updates]
        if update.tier is not None:
            return [update.updates[0].version]
        return update.closed

    def _make_teachers(self, work: Work) -> None:
        """The vectors that no server version is are made when they are first needed."""
        if isinstance(work, Train):
            for member in work.members:
                if is_teacher(member.teacher) and member.teacher not in self._versions:
                    start = self._versions[member.version]
                    self._versions[member.teacher] = self._model.teacher(member.teacher, member.version, start)

    def _hand_out(self) -> bool:
        """Work for the training ranks. The last piece is left to rank 0 unless a rank would otherwise idle."""
        moved = False
        while self._to_train or self._to_evaluate:
            rank = self._others.next_free(must_be_idle=len(self._to_train) <= 1 and not self._own_busy)
            if rank is None:
                break
            work = self._next_work()
            assert work is not None
            self._make_teachers(work)
            self._others.give(rank, work, self._versions)
            moved = True
        return moved

    def _next_work(self) -> Work | None:
        may_wait = _EVALUATIONS_WAITING * self._shards if self._is_target is None else 0
        crowded = len(self._to_evaluate) > may_wait
        if self._to_train and not crowded:
            return heappop(self._to_train)[3]
        return self._to_evaluate.popleft() if self._to_evaluate else None

    def _accept(self, answer: Answer) -> None:
        if isinstance(answer, Trained):
            stack = self._computing.pop((answer.makes, answer.place))
            self._assemblies[answer.makes].add(stack, answer)
            self._missing[answer.makes] -= 1
            self._known -= len(stack.members)
            for version in stack.versions:
                self._used(version)
        else:
            self._counted(answer)

    def _counted(self, answer: Evaluated) -> None:
        version = version_of(answer.version)
        counts = self._shard_counts[version]
        counts[answer.shard] = answer.counts
        if len(counts) == self._shards:
            self.evaluated[version] = [counts[shard] for shard in range(self._shards)]
            del self._shard_counts[version]
            self._wanted.remove(version)
            self._look_at(version)
        self._used(answer.version)

    def _look_at(self, version: int) -> None:
        """An evaluation may be good enough to end the federation; the first that is counts."""
        if self._is_target is not None and self._is_target(self.evaluated[version]):
            self.reached = version if self.reached is None else min(self.reached, version)

    # Evaluation and the life of versions.

    def _want(self, version: int) -> None:
        """This version is to be evaluated, unless that is done."""
        if version in self.evaluated:
            return
        self._wanted.add(version)
        if version <= self.applied:
            self._queue_evaluation(version)

    def _queue_evaluation(self, version: int) -> None:
        evaluated = version
        if self._model.has_output_model:
            evaluated = output_of(version)
            if evaluated not in self._versions:  # it is, where a checkpoint kept it
                self._versions[evaluated] = self._model.output()
        self._shard_counts[version] = {}
        self._uses[evaluated] = self._uses.get(evaluated, 0) + self._shards
        self._to_evaluate.extend(Evaluate(evaluated, shard) for shard in range(self._shards))

    def _used(self, vector: int) -> None:
        self._uses[vector] -= 1
        self._release(vector)

    def _release(self, vector: int) -> None:
        """Forgets a vector that nothing will start from, train from or evaluate any more."""
        if vector not in self._versions or self._uses.get(vector):
            return
        may_start = vector >= self.schedule.version or vector in self.schedule.open_updates
        if may_start and not self._played_out:
            return
        self._uses.pop(vector, None)
        del self._versions[vector]
        self._model.deltas.forget(vector)
        self._others.forget(vector)

    def output(self) -> Vector:
        """A copy of the output model as it is now, float32 [parameters]."""
        return self._model.output()

    # Checkpoints.

    def checkpoint(self) -> Checkpoint:
        """All that a later start needs beside the settings; the schedule is played again from its beginning. It is the
        engine's own state, to be saved before the engine goes on."""
        return Checkpoint(
            version=self.applied,
            versions={vector: value for vector, value in self._versions.items() if not is_teacher(vector)},
            assemblies={makes: part for makes, part in self._assemblies.items() if part.added or part.waiting},
            server=self._model.state(),
            deltas=self._model.deltas,
            evaluated=dict(self.evaluated),
            coreset_errors=dict(self.coreset_errors),
            losses=dict(self.schedule.losses),
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint; call it before ``run()``."""
        self.applied = checkpoint.version
        self._versions, self._assemblies = dict(checkpoint.versions), dict(checkpoint.assemblies)
        self._model.restore(checkpoint.server)
        self._model.deltas = checkpoint.deltas
        self.evaluated = dict(checkpoint.evaluated)
        self.coreset_errors = dict(checkpoint.coreset_errors)
        self.schedule.losses.update(checkpoint.losses)
        for version in self.evaluated:
            self._look_at(version)
