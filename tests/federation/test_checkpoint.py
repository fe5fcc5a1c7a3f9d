"""A checkpoint is whole or it is not there; the previous one stands in for a damaged one."""

from pathlib import Path

import numpy as np
import pytest

from fedhpc.clients.work import ShardCounts
from fedhpc.federation.checkpoint import Checkpoint, load_checkpoint, remove_checkpoints, save_checkpoint


def checkpoint(version: int) -> Checkpoint:
    return Checkpoint(
        version=version,
        versions={version: np.array([0.1, -2.0], np.float32), 3: np.zeros(2, np.float32)},
        deltas={41: np.array([1e-30, np.float32(1) / 3], np.float32)},
        server={"weights": np.array([1.0, 2.0], np.float32), "steps": np.array(4.0, np.float32)},
        evaluated={0: [ShardCounts(1, 0, 0.1 + 0.2)], version: [ShardCounts(3, 2, 1.5), ShardCounts(0, 0, 0.0)]},
    )


def same(found: Checkpoint | None, expected: Checkpoint) -> bool:
    assert found is not None
    vectors = [(found.versions, expected.versions), (found.deltas, expected.deltas), (found.server, expected.server)]
    return (
        found.version == expected.version
        and found.evaluated == expected.evaluated
        and all(
            {key: value.tobytes() for key, value in ours.items()}
            == {key: value.tobytes() for key, value in theirs.items()}
            for ours, theirs in vectors
        )
    )


def test_what_is_saved_is_loaded_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "a/b/trial-0.checkpoint"
    assert load_checkpoint(path, "digest") is None
    save_checkpoint(path, checkpoint(7), "digest")
    assert same(load_checkpoint(path, "digest"), checkpoint(7))
    assert [file.name for file in path.parent.iterdir()] == ["trial-0.checkpoint"]


@pytest.mark.parametrize("name", ["server/weights", "delta/41", "version/3"])
def test_a_checkpoint_with_an_array_of_another_name_is_damaged(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest")
    content = path.read_bytes()
    other = name[:-1] + chr(ord(name[-1]) ^ 1)
    assert name.encode() in content
    path.write_bytes(content.replace(name.encode(), other.encode()))
    assert load_checkpoint(path, "digest") is None


def test_no_flipped_bit_goes_unnoticed_or_unanswered(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest")
    content = path.read_bytes()
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        found = load_checkpoint(path, "digest")
        assert found is None or same(found, checkpoint(7)), position


def test_other_settings_start_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest")
    assert load_checkpoint(path, "other") is None


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "missing", "text"])
def test_the_previous_one_stands_in(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "trial-0.checkpoint"
    save_checkpoint(path, checkpoint(7), "digest")
    save_checkpoint(path, checkpoint(8), "digest")
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
    assert same(load_checkpoint(path, "digest"), checkpoint(7))
    remove_checkpoints(path)
    assert list(tmp_path.iterdir()) == []
