"""Checkpoints: what a killed run needs to go on, in one file that is either whole or not there.

A schedule is cheap and depends on settings only, so it is played again rather than stored. What is stored is what
training made: the live model versions, the server updates in the making, the server optimiser, the evaluations. The
previous checkpoint is kept, for the case that the newest cannot be read.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import ShardCounts
from fedhpc.federation.assembly import Assembly
from fedhpc.store.replacing import replacing

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Checkpoint:
    """A run after server version ``version`` came to be.

    ``versions``: float32 [parameters], by version. ``assemblies``: by the version that they will make. ``server``: the
    aggregator's state. ``evaluated``: the counts of every shard, by version.
    """

    version: int
    versions: dict[int, Vector]
    assemblies: dict[int, Assembly]
    server: dict[str, NDArray[np.generic]]
    evaluated: dict[int, list[ShardCounts]]


class OtherStep(Exception):
    """A checkpoint's numbers were computed in another way than the run's are to be."""


def save_checkpoint(path: Path, checkpoint: Checkpoint, digest: str, choice: StepChoice) -> None:
    """Writes the file beside its place, then renames: the last one becomes the previous one."""
    arrays: dict[str, NDArray[np.generic]] = {}
    arrays |= {f"version/{version}": weights for version, weights in checkpoint.versions.items()}
    for makes, assembly in checkpoint.assemblies.items():
        arrays |= {f"waiting/{makes}/{place}": update for place, update in assembly.waiting.items()}
        if assembly.total is not None:
            arrays[f"total/{makes}"] = assembly.total
    arrays |= {f"server/{name}": value for name, value in checkpoint.server.items()}
    rest: dict[str, object] = {
        "digest": digest,
        "step": choice.model_dump(),
        "version": checkpoint.version,
        "added": {makes: assembly.added for makes, assembly in checkpoint.assemblies.items()},
        "evaluated": {version: [asdict(count) for count in counts] for version, counts in checkpoint.evaluated.items()},
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
        groups: dict[str, dict[str, NDArray[np.generic]]] = {"version": {}, "total": {}, "waiting": {}, "server": {}}
        for name in arrays.files:
            group, _, key = name.partition("/")
            if key:
                groups[group][key] = arrays[name]
    assemblies = {int(makes): Assembly(added) for makes, added in rest["added"].items()}
    for makes, total in groups["total"].items():
        assemblies[int(makes)].total = _vector(total)
    for key, update in groups["waiting"].items():
        makes, _, place = key.partition("/")
        assemblies[int(makes)].waiting[int(place)] = _vector(update)
    return Checkpoint(
        version=rest["version"],
        versions={int(key): _vector(value) for key, value in groups["version"].items()},
        assemblies=assemblies,
        server=groups["server"],
        evaluated={
            int(version): [ShardCounts(**count) for count in counts] for version, counts in rest["evaluated"].items()
        },
    )


def _vector(value: NDArray[np.generic]) -> Vector:
    return value.astype(np.float32, copy=False)
