"""Checkpoints: what a killed run needs to go on, in one file that is either whole or not there.

A schedule is cheap and depends on settings only, so it is played again rather than stored. What is stored is what
training made: the live model versions, the server updates in the making, the server optimiser, the evaluations. The
previous checkpoint is kept, for the case that the newest cannot be read.
"""

import contextlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Alone, Part, ShardCounts
from fedhpc.federation.assembly import Assembly, Losses
from fedhpc.federation.round_deltas import RoundDelta, RoundDeltas
from fedhpc.store.replacing import replacing

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Checkpoint:
    """A run after server version ``version`` came to be.

    ``versions``: float32 [parameters], by version, and output models by their id. ``assemblies``: by the version that
    they will make. ``server``: the server model's state, beside its ``deltas``. ``evaluated``: the counts of every
    shard, and ``coreset_errors`` those of the server updates made, by version. ``losses``: of their client updates,
    where anybody reads them. ``clock``: what a clock's federation came to so far, as JSON has it; empty in virtual
    time.
    """

    version: int
    versions: dict[int, Vector]
    assemblies: dict[int, Assembly]
    server: dict[str, NDArray[np.generic]]
    deltas: RoundDeltas
    evaluated: dict[int, list[ShardCounts]]
    coreset_errors: dict[int, float]
    losses: Losses = field(default_factory=dict)
    clock: dict[str, Any] = field(default_factory=dict)


class OtherStep(Exception):
    """A checkpoint's numbers were computed in another way than the run's are to be."""


def save_checkpoint(path: Path, checkpoint: Checkpoint, digest: str, choice: StepChoice) -> None:
    """Writes the file beside its place, then renames: the last one becomes the previous one."""
    arrays: dict[str, NDArray[np.generic]] = {}
    arrays |= {f"version/{version}": weights for version, weights in checkpoint.versions.items()}
    for makes, assembly in checkpoint.assemblies.items():
        for place, (part, update) in assembly.waiting.items():
            arrays[f"waiting/{makes}/{place}/{_name(part)}"] = update
        arrays |= {f"total/{makes}/{_name(part)}": total for part, total in assembly.totals.items()}
        if assembly.losses:
            arrays[f"losses/{makes}"] = _table(assembly.losses)
    if checkpoint.losses:
        arrays[f"losses/{_KNOWN}"] = _table(checkpoint.losses)
    sums, deltas = _written_once(checkpoint.deltas)
    arrays |= {f"sum/{number}": total for number, total in enumerate(sums)}
    for version, state in checkpoint.deltas.server.items():
        arrays |= {f"state/{version}/{name}": value for name, value in state.items()}
    arrays |= {f"server/{name}": value for name, value in checkpoint.server.items()}
    rest: dict[str, object] = {
        "digest": digest,
        "step": choice.model_dump(),
        "version": checkpoint.version,
        "added": {makes: assembly.added for makes, assembly in checkpoint.assemblies.items()},
        "coreset_errors": checkpoint.coreset_errors,
        "errors_to_come": {makes: assembly.coreset_errors for makes, assembly in checkpoint.assemblies.items()},
        "deltas": deltas,
        "evaluated": {version: [asdict(count) for count in counts] for version, counts in checkpoint.evaluated.items()},
        "clock": checkpoint.clock,
    }
    rest["arrays"] = sorted(arrays)
    arrays["rest"] = np.frombuffer(json.dumps(rest).encode(), np.uint8)
    with replacing(path) as temporary:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        with contextlib.suppress(FileNotFoundError):
            path.replace(_previous(path))


def load_checkpoint(path: Path, digest: str, choice: StepChoice) -> Checkpoint | None:
    """The newest checkpoint of the run with this digest that is whole, or None. A zip's checksums tell.

    Raises OtherStep where its steps were computed in another way than ``choice``.
    """
    for candidate in (path, _previous(path)):
        try:
            found = _read(candidate, digest, choice)
        except OtherStep:
            raise
        except Exception:  # a damaged archive makes zipfile and numpy raise almost anything
            continue
        if found is not None:
            return found
    return None


def remove_checkpoints(path: Path) -> None:
    """The run is finished and needs them no more."""
    for file in (path, _previous(path)):
        file.unlink(missing_ok=True)


def _previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


def _read(path: Path, digest: str, choice: StepChoice) -> Checkpoint | None:
    with np.load(path, allow_pickle=False) as arrays:
        rest = json.loads(arrays["rest"].tobytes())
        if rest["digest"] != digest:
            return None
        if rest["step"] != choice.model_dump():
            raise OtherStep(
                f"{path} was computed with the step {rest['step']}, and the run is to be with {choice.model_dump()}; "
                "to go on from it, remove the algorithm's step.*.json and ask for that step; to begin anew, remove the "
                "checkpoint"
            )
        if rest["arrays"] != sorted(name for name in arrays.files if name != "rest"):
            raise ValueError("arrays are missing")
        groups: dict[str, dict[str, NDArray[np.generic]]] = {group: {} for group in _GROUPS}
        for name in arrays.files:
            group, _, key = name.partition("/")
            if key:
                groups[group][key] = arrays[name]
    assemblies = {
        int(makes): Assembly(added, coreset_errors=_numbered(rest["errors_to_come"][makes]))
        for makes, added in rest["added"].items()
    }
    for key, total in groups["total"].items():
        makes, part = key.split("/")
        assemblies[int(makes)].totals[_part(part)] = _vector(total)
    for key, update in groups["waiting"].items():
        makes, place, part = key.split("/")
        assemblies[int(makes)].waiting[int(place)] = (_part(part), _vector(update))
    losses = {makes: _losses(table) for makes, table in groups["losses"].items()}
    known = losses.pop(_KNOWN, {})
    for makes, to_come in losses.items():
        assemblies[int(makes)].losses = to_come
    return Checkpoint(
        version=rest["version"],
        versions={int(key): _vector(value) for key, value in groups["version"].items()},
        assemblies=assemblies,
        server=groups["server"],
        deltas=_deltas(rest["deltas"], groups["sum"], groups["state"]),
        evaluated={
            int(version): [ShardCounts(**count | {"of_classes": tuple(count["of_classes"])}) for count in counts]
            for version, counts in rest["evaluated"].items()
        },
        coreset_errors=_numbered(rest["coreset_errors"]),
        losses=known,
        clock=rest["clock"],
    )


_GROUPS = ("version", "total", "waiting", "losses", "server", "sum", "state")
_OWN, _ALONE, _KNOWN = "own", "alone-", "known"
_LOSS = np.dtype([("client", "<i8"), ("participation", "<i8"), ("loss", "<f8")])


def _numbered(values: dict[str, float]) -> dict[int, float]:
    return {int(number): value for number, value in values.items()}


def _name(part: Part) -> str:
    if isinstance(part, Alone):
        return f"{_ALONE}{part.place}"
    return _OWN if part is None else str(part)


def _part(name: str) -> Part:
    if name.startswith(_ALONE):
        return Alone(int(name.removeprefix(_ALONE)))
    return None if name == _OWN else int(name)


def _table(losses: Losses) -> NDArray[np.generic]:
    return np.array([(*update, loss) for update, loss in losses.items()], _LOSS)


def _losses(table: NDArray[np.generic]) -> Losses:
    return {(client, participation): loss for client, participation, loss in table.tolist()}


def _written_once(deltas: RoundDeltas) -> tuple[list[Vector], dict[str, object]]:
    """The sums, each once though rounds and teachers share them, and who has which: [number of the sum, clients]."""
    sums: list[Vector] = []
    numbers: dict[int, int] = {}

    def number(delta: RoundDelta) -> list[int]:
        if id(delta.total) not in numbers:
            numbers[id(delta.total)] = len(sums)
            sums.append(delta.total)
        return [numbers[id(delta.total)], delta.clients]

    by_round = {start: number(delta) for start, delta in deltas.by_round.items()}
    of_teachers = {
        version: {teacher: number(delta) for teacher, delta in teachers.items()}
        for version, teachers in deltas.of_teachers.items()
    }
    return sums, {"by_round": by_round, "of_teachers": of_teachers}


def _deltas(rest: Any, sums: dict[str, NDArray[np.generic]], states: dict[str, NDArray[np.generic]]) -> RoundDeltas:
    vectors = {int(number): _vector(total) for number, total in sums.items()}

    def delta(entry: list[int]) -> RoundDelta:
        return RoundDelta(vectors[entry[0]], entry[1])

    found = RoundDeltas()
    found.by_round = {int(start): delta(entry) for start, entry in rest["by_round"].items()}
    for version, teachers in rest["of_teachers"].items():
        found.of_teachers[int(version)] = {int(teacher): delta(entry) for teacher, entry in teachers.items()}
        found.server[int(version)] = {}
    for key, value in states.items():
        version, name = key.split("/")
        found.server[int(version)][name] = value
    return found


def _vector(value: NDArray[np.generic]) -> Vector:
    return value.astype(np.float32, copy=False)
