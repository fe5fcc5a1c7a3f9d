"""One run: one federation, from its settings to its HDF5 file. Called by every rank of its MPI job."""

import gc
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import numpy as np
import yaml

from fedhpc.budget import Budget
from fedhpc.clients.objective import Objective
from fedhpc.clients.steps.choice_file import OtherChoice, choice_file, kept_choice
from fedhpc.clients.steps.step_choice import NoDevice, StepChoice, StepWishes
from fedhpc.data.federated import FederatedData, open_prepared
from fedhpc.data.preparation import fingerprint_of, located_task, population_of, prepared_data
from fedhpc.experiment import Experiment, Run, RunSettings
from fedhpc.federation.checkpoint import Checkpoint, OtherStep, load_checkpoint, remove_checkpoints, save_checkpoint
from fedhpc.federation.metrics import HeldOut
from fedhpc.federation.population import Population
from fedhpc.federation.privacy_budget import make_noise, noise_multiplier, spent_epsilon
from fedhpc.federation.recorder import Columns, Metrics, Recorder, client_columns
from fedhpc.federation.schedule import make_schedule, make_wall_server
from fedhpc.federation.schedulers.tiered import TieredSettings
from fedhpc.federation.server import Server
from fedhpc.federation.updates import ScheduleError, ServerUpdate
from fedhpc.federation.virtual_server import VirtualServer
from fedhpc.federation.wall_server import Loss
from fedhpc.interruption import Interrupted, Stop, stoppable
from fedhpc.latency.in_words import latency_attributes
from fedhpc.mistakes import ExperimentError
from fedhpc.ranks.guard import Guarded, launched_rank, stand_guard
from fedhpc.ranks.world import (
    abort_together,
    agree,
    dying_alone,
    join_world,
    leave_world,
    local_rank,
    tell_all,
    wait_for_all,
    watched,
)
from fedhpc.store.choice import settings_in
from fedhpc.store.lease import LeaseHeld, LeaseLost, check_lease, is_ending, live_owner
from fedhpc.store.progress import Progress, read_progress, write_progress
from fedhpc.store.record import RunRecord
from fedhpc.store.replacing import NotWritable
from fedhpc.store.run_file import finished_digest, write_run
from fedhpc.task import Learning

if TYPE_CHECKING:
    from mpi4py import MPI

NO_WISHES = StepWishes()
_NO_DEFECTS = (Interrupted, LeaseLost, NoDevice, NotWritable, OtherStep, ScheduleError)
_PULSE_SECONDS = 1.0


@dataclass(frozen=True)
class _Start:
    """What rank 0 finds out before the federation begins, the same on every rank. ``attributes``: what the result will
    say of its clients."""

    digest: str
    prepared: Path | None
    population: Population
    finished: bool
    attributes: dict[str, str | float]


@dataclass
class _Lived:
    """A federation: its schedule and what is recorded of it, its evaluations' ``quality`` by version, and whether it
    ``reached`` its target. ``coreset_errors``: by version, None where they are not asked for. ``of_clients`` and
    ``attributes`` are what else there is to keep. ``all_live``: no silo was given up. ``interrupted``: why it
    is not over, if it is not."""

    schedule: Server
    recorder: Recorder
    quality: dict[int, Metrics] = field(default_factory=dict)
    reached: bool = False
    of_clients: Columns = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    coreset_errors: dict[int, float] | None = None
    all_live: bool = True
    interrupted: Interrupted | None = None


def run(
    experiment: Experiment,
    cell: Run,
    folder: Path,
    *,
    lease: str | None,
    checkpoint_seconds: float,
    step: StepWishes = NO_WISHES,
    expected: str | None = None,
) -> bool:
    """Lives one federation through and publishes its result; call it on every rank of the job, or alone.

    ``lease`` is the token of the sweep that this run belongs to, or None for a run of its own; ``expected``, the digest
    that the sweep knows it by. ``step`` says how
    clients' steps are to be computed, where that is not left to a measurement. True if the run was computed, False if
    its result was there already. A run that was interrupted goes on from its checkpoint.

    Raises on every rank ExperimentError (the settings cannot work with these data, or a file is no longer what it was
    when the sweep began), LeaseHeld (a live sweep holds the
    folder), LeaseLost (the sweep that started it is over) and LauncherError. Any later failure ends the whole job.
    Where SIGTERM or Ctrl-C comes, or its sweep is ending, the job ends with a checkpoint: rank 0 raises Interrupted.
    """
    with stoppable(answers=launched_rank() == 0) as stop:
        return _run(experiment, cell, folder, lease, checkpoint_seconds, step, expected, stop)


def _run(
    experiment: Experiment,
    cell: Run,
    folder: Path,
    lease: str | None,
    checkpoint_seconds: float,
    step: StepWishes,
    expected: str | None,
    stop: Stop,
) -> bool:
    wall = experiment.clock == "wall"
    guarded = stand_guard() if wall else None
    world = join_world(ranks_may_die=wall)
    started = time.time()
    settings = agree(world, lambda: _with_files_found(settings_in(folder, experiment, cell), experiment))
    ranks = 1 if world is None else world.size
    start = agree(world, stop.at_once(lambda: _prepare(experiment, cell, settings, folder, lease, expected, ranks)))
    if start.finished:
        if wall:
            leave_world(world)
        return False
    choice: StepChoice | None = None
    if start.prepared is not None:
        prepared = start.prepared
        _load_what_trains()
        choice = agree(world, stop.at_once(lambda: _choose(experiment, cell, settings, prepared, folder, step)))
    with abort_together(world, quietly=_NO_DEFECTS), watched(world, ranks_may_die=wall), _told_of(cell):
        privacy = settings.algorithm.privacy
        multiplier = None
        if privacy is not None and (world is None or world.rank == 0):
            multiplier = noise_multiplier(settings, start.population)
        files = _Files(cell, folder, settings.budget, start.digest, choice, lease, checkpoint_seconds, stop)
        if start.prepared is not None and choice is not None and guarded is not None and world is not None:
            lived = _live_by_the_clock(settings, open_prepared(start.prepared), choice, files, world, guarded)
        else:
            lived = _Lived(make_schedule(settings, start.population), Recorder(settings.evaluation))
            if start.prepared is not None and choice is not None:
                lived = _train(settings, lived, open_prepared(start.prepared), choice, files, world, multiplier)
            else:
                _play(lived, files)
        if lived.interrupted is None and (world is None or world.rank == 0):
            attributes = _attributes(experiment, settings, start, choice, started, world)
            attributes |= start.attributes | lived.attributes
            attributes["updates_waiting"] = lived.schedule.totals.updates_waiting
            if (deadline := lived.schedule.deadline) is not None:
                attributes["deadline"] = deadline
            if settings.budget.target is not None:
                attributes["target_reached"] = int(lived.reached)
            if privacy is not None and multiplier is not None:
                steps = lived.recorder.steps_of_trees
                attributes["epsilon"] = spent_epsilon(settings, start.population, multiplier, steps)
                attributes |= {"delta": privacy.delta, "noise_multiplier": multiplier}
            files.publish(
                RunRecord(
                    cell.algorithm,
                    cell.scenario,
                    cell.trial,
                    settings.seed,
                    lived.recorder.evaluations(lived.quality),
                    lived.recorder.server_updates(lived.coreset_errors),
                    client_columns(lived.schedule) | lived.of_clients,
                    lived.recorder.client_updates(),
                    attributes,
                )
            )
        if not wall:
            wait_for_all(world)
    if wall and lived.all_live:
        leave_world(world)
    if lived.interrupted is not None:
        raise lived.interrupted
    return True


def _with_files_found(settings: RunSettings, experiment: Experiment) -> RunSettings:
    """The same with the paths of the model's files as they were found, for all ranks to read."""
    if not isinstance(settings.task, Learning):
        return settings
    return settings.model_copy(update={"task": located_task(experiment)})


def _prepare(
    experiment: Experiment,
    cell: Run,
    settings: RunSettings,
    folder: Path,
    lease: str | None,
    expected: str | None,
    ranks: int,
) -> _Start:
    if lease is not None:
        if is_ending(folder, lease):
            raise Interrupted("interrupted before the federation began")
    elif (owner := live_owner(folder)) is not None:
        raise LeaseHeld(owner)
    prepared = prepared_data(experiment, folder, cell.trial)
    population = population_of(experiment.task, prepared)
    mistakes = experiment.mistakes_of(settings.algorithm, population)
    mistakes = [f"algorithms.{cell.algorithm}.{mistake}" for mistake in mistakes]
    mistakes += experiment.scenario_mistakes(population)
    needed = len(population) + 1
    if experiment.clock == "wall" and ranks != needed:
        mistakes.append(
            f"clock: wall, and so a run takes {needed} ranks, rank 0 and one for each of {len(population)} clients; "
            f"this one has {ranks}; start it with `mpiexec -disable-auto-cleanup -n {needed}`"
        )
    if mistakes:
        raise ExperimentError(experiment.file, mistakes)
    digest, found = settings.digest(fingerprint_of(experiment)), finished_digest(cell.file(folder, ".h5"))
    if expected not in (None, digest):
        told = (
            "a file that this run reads (data, a scenario's, a module of one's own) has changed since the sweep began"
        )
        raise ExperimentError(experiment.file, [f"{told}; put it back, or give the new one another --output"])
    if found not in (None, digest):
        raise ExperimentError(
            cell.file(folder, ".h5"),
            ["this is the result of other settings, data or seed; give another --output, or remove it"],
        )
    # Here, while the scenario's files are sure to be there.
    attributes = latency_attributes(settings.scenario, len(population), settings.seed, settings.trial)
    return _Start(digest, prepared, population, found == digest, attributes)


def _load_what_trains() -> None:
    """Imports torch and all that a training rank needs. Every rank does it here, at the same time: a rank that first
    waited for rank 0's choice of a step would load it after rank 0.

    Nearly all that is made lasts as long as the process. Garbage collections would look through it again and again, on
    the way and in every later one: they take a fifth of the import and more of the process's end.
    """
    gc.disable()
    try:
        import fedhpc.clients.local_training
        import fedhpc.federation.engine
        import fedhpc.ranks.pool  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()


def _choose(
    experiment: Experiment,
    cell: Run,
    settings: RunSettings,
    prepared: Path,
    folder: Path,
    wishes: StepWishes,
) -> StepChoice:
    """How this algorithm's steps are computed: as the folder has it, or else as a measurement has it."""
    from fedhpc.clients.steps.calibration import calibrate
    from fedhpc.clients.steps.candidates import UnfitChoice, mistake

    assert isinstance(settings.task, Learning)
    model, client, data = settings.task.model, settings.algorithm.client, open_prepared(prepared)
    objective = Objective.of(settings.task)
    file = choice_file(folder / cell.algorithm, model, client, objective.model_shape(data.shape), data.classes)
    updates = settings.algorithm.updates if settings.clock == "virtual" else 1  # a silo trains one client
    try:
        choice = kept_choice(file, wishes, lambda: calibrate(model, client, data, updates, wishes, objective))
        if (told := mistake(choice, model, client)) is not None:
            raise UnfitChoice(f"{told}; {file} asks for it")
        return choice
    except (UnfitChoice, OtherChoice) as error:
        raise ExperimentError(experiment.file, [f"algorithms.{cell.algorithm}: {error}"]) from None


def _play(lived: _Lived, files: "_Files | None") -> None:
    """The schedule alone."""
    assert isinstance(lived.schedule, VirtualServer)
    for update in lived.schedule.server_updates():
        lived.recorder.observe(update)
        if files is not None:
            files.pulse(update, None)
    lived.recorder.finish()


def _train(
    settings: RunSettings,
    lived: _Lived,
    data: FederatedData,
    choice: StepChoice,
    files: "_Files",
    world: "MPI.Intracomm | None",
    multiplier: float | None,
) -> _Lived:
    """The federation as far as it went, on rank 0; the training ranks return when it is over."""
    from fedhpc.clients.local_training import LocalTraining
    from fedhpc.clients.steps.device import prepare_device
    from fedhpc.federation.engine import Engine
    from fedhpc.federation.server_model import ServerModel
    from fedhpc.ranks.mailbox import Rest
    from fedhpc.ranks.pool import OwnRank, TrainingRanks
    from fedhpc.ranks.training_rank import TrainingRank

    assert isinstance(settings.task, Learning)
    client, objective = settings.algorithm.client, Objective.of(settings.task)
    prepare_device(choice, client.precision, local_rank(world))
    training = LocalTraining(
        settings.task.model,
        client,
        data,
        settings.seed,
        settings.trial,
        choice,
        objective=objective,
        measures_losses=settings.algorithm.reads_losses,
    )
    if world is not None and world.rank > 0:
        TrainingRank(world, training).serve()
        return lived
    quality = HeldOut.of(data, objective).metrics
    target, schedule = settings.budget.target, lived.schedule
    assert isinstance(schedule, VirtualServer)
    ranks = TrainingRanks(world)
    initial = training.initial_weights()
    noise = None if multiplier is None else make_noise(settings, multiplier, len(initial))
    engine = Engine(
        schedule,
        lived.recorder,
        ServerModel(settings.algorithm, initial, noise, training.statistics),
        OwnRank(training),
        ranks,
        Rest(),
        training.shards,
        choice.clients,
        lambda engine: files.pulse(engine.newest, engine.checkpoint),
        None if target is None else lambda shards: target.is_met(quality(shards)),
    )
    checkpoint = load_checkpoint(files.checkpoint, files.digest, choice)
    if checkpoint is not None:
        engine.restore(checkpoint)
        _say_where(checkpoint)
    engine.run()
    ranks.stop()
    if engine.reached is not None:
        # The schedule was played ahead of the training: once more, to the target's version and no further.
        ended = settings.budget.model_copy(update={"server_updates": engine.reached})
        until = settings.model_copy(update={"budget": ended})
        again = make_schedule(until, schedule.population)
        again.losses = schedule.losses
        lived = _Lived(again, Recorder(settings.evaluation), reached=True)
        _play(lived, None)
    if client.record_coreset_error:
        lived.coreset_errors = engine.coreset_errors
    lived.quality = {version: quality(shards) for version, shards in engine.evaluated.items()}
    return lived


def _live_by_the_clock(
    settings: RunSettings,
    data: FederatedData,
    choice: StepChoice,
    files: "_Files",
    world: "MPI.Intracomm",
    guarded: Guarded,
) -> _Lived:
    """The federation as far as it went, on rank 0; a silo returns when it is over, or dies alone."""
    from fedhpc.clients.local_training import LocalTraining
    from fedhpc.clients.steps.device import prepare_device
    from fedhpc.federation.server_model import ServerModel
    from fedhpc.federation.wall_engine import WallEngine
    from fedhpc.ranks.mailbox import Rest
    from fedhpc.ranks.silo import Silo
    from fedhpc.ranks.silos import Silos

    assert isinstance(settings.task, Learning)
    assert settings.silence is not None
    client, target = settings.algorithm.client, settings.budget.target
    prepare_device(choice, client.precision, local_rank(world))
    objective = Objective.of(settings.task)
    training = LocalTraining(
        settings.task.model, client, data, settings.seed, settings.trial, choice, objective=objective
    )
    initial, silo = training.initial_weights(), None
    if world.rank > 0:
        silo = Silo(world, training, settings.scenario.slowdown_of(world.rank - 1), settings.silence)
    profiled: list[float] = []
    if isinstance(settings.algorithm, TieredSettings):
        profiled = tell_all(world, silo.profile(initial) if silo is not None else 0.0)[1:]
    server = make_wall_server(settings, data.population, profiled)
    lived = _Lived(server, Recorder(settings.evaluation))
    quality = HeldOut.of(data, objective).metrics
    guarded.federation_begins(*agree(world, lambda: (socket.gethostname(), os.getpid())))
    if silo is not None:
        with dying_alone(world):
            lived.all_live = silo.serve()
        return lived

    def tell(loss: Loss) -> None:
        print(
            f"silo {data.client_names[loss.client]} (client {loss.client}, rank {loss.client + 1}) was silent for "
            f"{settings.silence:g} s and is given up at second {loss.second:.1f}; {server.living} of "
            f"{len(data.population)} silos go on",
            file=sys.stderr,
            flush=True,
        )

    silos = Silos(world, settings.silence)
    engine = WallEngine(
        server,
        lived.recorder,
        ServerModel(settings.algorithm, initial, statistics=training.statistics),
        silos,
        training.evaluate,
        training.shards,
        Rest(),
        lambda engine: files.pulse(engine.newest, engine.checkpoint),
        None if target is None else lambda shards: target.is_met(quality(shards)),
        tell,
    )
    checkpoint = load_checkpoint(files.checkpoint, files.digest, choice)
    if checkpoint is not None:
        engine.restore(checkpoint)
        _say_where(checkpoint)
    try:
        engine.run()
    except Interrupted as interrupted:
        # The silos would outlive an abort; so all end as at the end, but without a result.
        lived.interrupted = interrupted
    silos.stop()
    lived.all_live = silos.all_live
    if lived.interrupted is not None:
        return lived
    lived.reached = engine.reached
    lived.quality = {version: quality(shards) for version, shards in engine.evaluated.items()}
    lost_at = np.full(len(data.population), np.nan)
    lost_at[list(server.lost_at)] = list(server.lost_at.values())
    lived.of_clients = {"lost_at": lost_at}
    lost = [[data.client_names[loss.client], round(loss.second, 3)] for loss in server.losses]
    lived.attributes = {"silos_lost": json.dumps(lost)}
    return lived


def _say_where(checkpoint: Checkpoint) -> None:
    print(f"goes on from server version {checkpoint.version}", file=sys.stderr, flush=True)


class _Files:
    """What a run leaves in the folder while it lives, and at its end."""

    def __init__(
        self,
        cell: Run,
        folder: Path,
        budget: Budget,
        digest: str,
        choice: StepChoice | None,
        lease: str | None,
        checkpoint_seconds: float,
        stop: Stop,
    ) -> None:
        self.digest, self._choice = digest, choice
        self.checkpoint = cell.file(folder, ".checkpoint")
        self._result, self._progress = cell.file(folder, ".h5"), cell.file(folder, ".progress.json")
        self._folder, self._lease, self._budget = folder, lease, budget
        self._every, self._stop = checkpoint_seconds, stop
        self._next_progress = 0.0
        self._next_checkpoint = time.monotonic() + checkpoint_seconds

    def pulse(self, newest: ServerUpdate | None, checkpoint: Callable[[], Checkpoint] | None) -> None:
        """Called often: writes progress every second, and a checkpoint when it is due and there is a version to keep.

        Raises Interrupted where the run was asked to stop, after a last checkpoint, and LeaseLost where the sweep that
        started this run is over.
        """
        now = time.monotonic()
        is_due = now >= self._next_checkpoint and newest is not None and checkpoint is not None
        if self._stop.number is None and now < self._next_progress and not is_due:
            return
        if self._is_asked_to_stop():
            self._interrupt(newest, checkpoint)
        if now >= self._next_progress:
            self._next_progress = now + _PULSE_SECONDS
            if newest is not None:
                write_progress(self._progress, self._told("running", newest))
        if is_due and checkpoint is not None:
            self._save(checkpoint())
            self._next_checkpoint = time.monotonic() + self._every

    def _is_asked_to_stop(self) -> bool:
        ending = self._lease is not None and is_ending(self._folder, self._lease)
        return ending or self._stop.number is not None

    def _interrupt(self, newest: ServerUpdate | None, checkpoint: Callable[[], Checkpoint] | None) -> NoReturn:
        told = "interrupted; there was nothing to keep"
        if newest is not None and checkpoint is not None:
            kept = checkpoint()
            self._save(kept)
            told = f"interrupted; a checkpoint was written at server version {kept.version}"
        write_progress(self._progress, self._told("interrupted", newest))
        raise Interrupted(told, self._stop.status)

    def _save(self, checkpoint: Checkpoint) -> None:
        assert self._choice is not None, "what is trained is trained in a chosen way"
        save_checkpoint(self.checkpoint, checkpoint, self.digest, self._choice)

    def _told(self, state: Literal["running", "interrupted"], newest: ServerUpdate | None) -> Progress:
        last = read_progress(self._progress) if newest is None else None
        return Progress(
            state=state,
            fraction=self._budget.fraction(newest.totals, newest.time) if newest else last.fraction if last else 0.0,
            client_updates=newest.totals.client_updates if newest else last.client_updates if last else 0,
            virtual_seconds=newest.time if newest else last.virtual_seconds if last else 0.0,
            message="",
            log=None,
            host=socket.gethostname(),
            pid=os.getpid(),
            updated_wall=time.time(),
        )

    def publish(self, record: RunRecord) -> None:
        """The result appears; what was kept for an interruption goes."""
        self._check_lease()
        write_run(self._result, record)
        self._progress.unlink(missing_ok=True)
        remove_checkpoints(self.checkpoint)

    def _check_lease(self) -> None:
        if self._lease is not None:
            check_lease(self._folder, self._lease)


@contextmanager
def _told_of(cell: Run) -> Iterator[None]:
    """Within, a schedule that would never end is told by the run's names."""
    try:
        yield
    except ScheduleError as error:
        raise ScheduleError(f"algorithms.{cell.algorithm}, scenario {cell.scenario}: {error}") from None


def _attributes(
    experiment: Experiment,
    settings: RunSettings,
    start: _Start,
    choice: StepChoice | None,
    started: float,
    world: "MPI.Intracomm | None",
) -> dict[str, str | int | float]:
    libraries = {name: version(name) for name in ("numpy", "torch", "h5py", "mpi4py")}
    names: dict[str, str | int | float] = {}
    if start.prepared is not None:
        data = open_prepared(start.prepared)
        names = {"class_names": json.dumps(data.class_names), "client_names": json.dumps(data.client_names)}
    if choice is not None:
        names |= {"step": choice.model_dump_json(), "processor": _processor(choice)}
    return names | {
        "title": experiment.title,
        "experiment": experiment.name,
        "digest": start.digest,
        "clock": settings.clock,
        "settings": yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False),
        "fedhpc_version": version("fedhpc"),
        "python_version": platform.python_version(),
        "library_versions": ", ".join(f"{name} {number}" for name, number in libraries.items()),
        "host": socket.gethostname(),
        "machine": platform.machine(),
        "ranks": 1 if world is None else world.size,
        "started_wall": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "wall_seconds": time.time() - started,
    }


def _processor(choice: StepChoice) -> str:
    """What computes: results have the same bytes on processors of one instruction set, or GPUs of one model."""
    import torch

    if choice.device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
