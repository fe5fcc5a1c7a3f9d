"""A checkpoint is whole or it is not there; the previous one stands in for a damaged one."""

import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import Alone, ShardCounts
from fedhpc.federation.assembly import Assembly
from fedhpc.federation.checkpoint import Checkpoint, OtherStep, load_checkpoint, remove_checkpoints, save_checkpoint
from fedhpc.federation.round_deltas import RoundDelta, RoundDeltas

STEP = StepChoice(form="dense", clients=8)
SHARED = RoundDelta(np.array([0.7, -0.9], np.float32), 3)


def checkpoint(version: int) -> Checkpoint:
    return Checkpoint(
        version=version,
        versions={version: np.array([0.1, -2.0], np.float32), 3: np.zeros(2, np.float32)},
        assemblies={
            8: Assembly(
                2,
                {None: np.array([4.0, 0.1], np.float32), 6: np.array([-0.0, 5.5], np.float32)},
                {
                    41: (None, np.array([1e-30, np.float32(1) / 3], np.float32)),
                    43: (6, np.array([7.0, 8.0], np.float32)),
                },
                {1: 0.1 + 0.2, 41: 1e-300},
            ),
            9: Assembly(
                1,
                {Alone(3): np.array([2.5, -0.0], np.float32)},
                {2: (Alone(0), np.array([1.5, np.inf], np.float32))},
                losses={(4, 0): 0.1 + 0.2, (2**40, 7): 5e-324},
            ),
            10: Assembly(),
        },
        deltas=RoundDeltas(
            {5: SHARED, 6: RoundDelta(np.array([0.3, 0.4], np.float32), 4)},
            {3: {-3: SHARED, -5: RoundDelta(np.array([0.1, 0.2], np.float32), 2)}, version: {-7: SHARED}},
            {3: {"momentum": np.array([1.0, 2.0], np.float32)}, version: {}},
        ),
        server={"weights": np.array([1.0, 2.0], np.float32), "steps": np.array(4.0, np.float32)},
        evaluated={
            0: [ShardCounts(1, 0, 0.1 + 0.2)],
            version: [ShardCounts(3, 2, 1.5, 4, (1, 2)), ShardCounts(0, 0, 0.0)],
        },
        coreset_errors={1: 0.1 + 0.7, version: 1e300},
        losses={(4, 1): 0.1 + 0.7, (3, 0): math.inf, (2**40, 6): 0.0},
    )


def plain(value: Any) -> Any:
    """Its content, arrays as their bytes."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if is_dataclass(value):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def same(found: Checkpoint | None, expected: Checkpoint) -> bool:
    return bool(plain(found) == plain(expected))


def test_a_sum_that_several_share_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest", STEP)
    assert path.read_bytes().count(SHARED.total.tobytes()) == 1
    found = load_checkpoint(path, "digest", STEP)
    assert found is not None
    assert found.deltas.by_round[5].total is found.deltas.of_teachers[7][-7].total


def test_what_is_saved_is_loaded_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "a/b/trial-0.checkpoint"
    assert load_checkpoint(path, "digest", STEP) is None
    save_checkpoint(path, checkpoint(7), "digest", STEP)
    assert same(load_checkpoint(path, "digest", STEP), checkpoint(7))
    assert [file.name for file in path.parent.iterdir()] == ["trial-0.checkpoint"]


@pytest.mark.parametrize(
    "name", ["server/weights", "waiting/8/41/own", "total/8/own", "sum/2", "version/3", "losses/9"]
)
def test_a_checkpoint_with_an_array_of_another_name_is_damaged(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest", STEP)
    content = path.read_bytes()
    other = name[:-1] + chr(ord(name[-1]) ^ 1)
    assert name.encode() in content
    path.write_bytes(content.replace(name.encode(), other.encode()))
    assert load_checkpoint(path, "digest", STEP) is None


def test_no_flipped_bit_goes_unnoticed_or_unanswered(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest", STEP)
    content = path.read_bytes()
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        found = load_checkpoint(path, "digest", STEP)
        assert found is None or same(found, checkpoint(7)), position


def test_other_settings_start_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest", STEP)
    assert load_checkpoint(path, "other", STEP) is None


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "missing", "text"])
def test_the_previous_one_stands_in(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest", STEP)
    save_checkpoint(path, checkpoint(8), "digest", STEP)
    content = bytearray(path.read_bytes())
    where = content.find(np.array([0.1, -2.0], np.float32).tobytes())
    assert where > 0
    match damage:
        case "truncated":
            path.write_bytes(content[: len(content) // 2])
        case "flipped":
            content[where] ^= 1
            path.write_bytes(content)
        case "empty":
            path.write_bytes(b"")
        case "missing":
            path.unlink()
        case "text":
            path.write_text("no checkpoint")
    assert same(load_checkpoint(path, "digest", STEP), checkpoint(7))
    remove_checkpoints(path)
    assert list(tmp_path.iterdir()) == []


def test_numbers_computed_in_another_way_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest", STEP)
    with pytest.raises(OtherStep, match=r"trial-0.checkpoint.*'clients': 8.*'clients': 4.*remove the checkpoint"):
        load_checkpoint(path, "digest", StepChoice(form="dense", clients=4))
