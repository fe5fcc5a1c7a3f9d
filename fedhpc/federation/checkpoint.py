"""Checkpoints: what a killed run needs to go on, in one file that is either whole or not there.

A schedule is cheap and depends on settings only, so it is played again rather than stored. What is stored is what
training made: the live model versions, the client updates that wait, the server optimiser, the evaluations. The
previous checkpoint is kept, for the case that the newest cannot be read.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedhpc.clients.work import ShardCounts
from fedhpc.store.replacing import replacing

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Checkpoint:
    """A run after server version ``version`` came to be.

    ``versions`` and ``deltas``: float32 [parameters] by version and by number of client update. ``server``: the
    aggregator's state. ``evaluated``: the counts of every shard, by version.
    """

    version: int
    versions: dict[int, Vector]
    deltas: dict[int, Vector]
    server: dict[str, NDArray[np.generic]]
    evaluated: dict[int, list[ShardCounts]]


def save_checkpoint(path: Path, checkpoint: Checkpoint, digest: str) -> None:
    """Writes the file beside its place, then renames: the last one becomes the previous one."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, vectors in (("version", checkpoint.versions), ("delta", checkpoint.deltas)):
        arrays |= {f"{name}/{number}": vector for number, vector in vectors.items()}
    arrays |= {f"server/{name}": value for name, value in checkpoint.server.items()}
    rest: dict[str, object] = {
        "digest": digest,
        "version": checkpoint.version,
        "evaluated": {version: [asdict(count) for count in counts] for version, counts in checkpoint.evaluated.items()},
    }
    rest["arrays"] = sorted(arrays)
    arrays["rest"] = np.frombuffer(json.dumps(rest).encode(), np.uint8)
    with replacing(path) as temporary:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        with contextlib.suppress(FileNotFoundError):
            path.replace(_previous(path))


def load_checkpoint(path: Path, digest: str) -> Checkpoint | None:
    """The newest checkpoint of the run with this digest that is whole, or None. A zip's checksums tell."""
    for candidate in (path, _previous(path)):
        try:
            found = _read(candidate, digest)
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


def _read(path: Path, digest: str) -> Checkpoint | None:
    with np.load(path, allow_pickle=False) as arrays:
        rest = json.loads(arrays["rest"].tobytes())
        if rest["digest"] != digest:
            return None
        if rest["arrays"] != sorted(name for name in arrays.files if name != "rest"):
            raise ValueError("arrays are missing")
        groups: dict[str, dict[str, NDArray[np.generic]]] = {"version": {}, "delta": {}, "server": {}}
        for name in arrays.files:
            group, _, key = name.partition("/")
            if key:
                groups[group][key] = arrays[name]
    return Checkpoint(
        version=rest["version"],
        versions={int(key): _vector(value) for key, value in groups["version"].items()},
        deltas={int(key): _vector(value) for key, value in groups["delta"].items()},
        server=groups["server"],
        evaluated={
            int(version): [ShardCounts(**count) for count in counts] for version, counts in rest["evaluated"].items()
        },
    )


def _vector(value: NDArray[np.generic]) -> Vector:
    return value.astype(np.float32, copy=False)
