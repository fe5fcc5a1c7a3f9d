"""A pickle is read and never obeyed."""

import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpc.latency.plain_pickle import NotPlain, read_plain_pickle


class Hostile:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def written(tmp_path: Path, content: object, protocol: int = 4) -> Path:
    path = tmp_path / "some.pkl"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_come_back(tmp_path: Path, protocol: int) -> None:
    content = {1: {"active": [0, 2.5, 10**30], "model": "a phone", "more": (None, True, [])}, "two": {}}
    assert read_plain_pickle(written(tmp_path, content, protocol)) == content


def test_python_2_may_have_written_it(tmp_path: Path) -> None:
    path = tmp_path / "old.pkl"
    path.write_bytes(b"\x80\x02}U\x05mod\xe9lK\x07s.")  # its texts were bytes
    assert read_plain_pickle(path) == {"mod\xe9l": 7}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_does_nothing(tmp_path: Path, protocol: int) -> None:
    folder = tmp_path / "made"
    path = written(tmp_path, {1: {"active": [Hostile(folder)]}}, protocol)
    with pytest.raises(NotPlain, match=r"names (posix|nt|os)\.mkdir, and only plain dicts"):
        read_plain_pickle(path)
    assert not folder.exists()
    # It would have, had it been obeyed.
    pickle.loads(path.read_bytes())
    assert folder.is_dir()


@pytest.mark.parametrize(
    "content",
    [
        np.arange(3),
        np.float64(1),
        OrderedDict(a=1),
        print,
        Path,
        complex(1, 2),
        range(3),
        # Names that a list of forbidden ones would have to know.
        getattr,
        eval,
    ],
    ids=str,
)
def test_what_is_more_than_plain_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(NotPlain, match="and only plain dicts"):
        read_plain_pickle(written(tmp_path, content))


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"not a pickle at all",
        b"\x80\x04",
        pickle.dumps({1: [1, 2, 3]})[:-4],
        b"\x80\x04\x8e" + (2**62).to_bytes(8, "little") + b"few",  # claims a text of 4 exabytes
        b"\x80\x02]}b.",  # BUILD: the state of a list
        b"cposix\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",  # INST, which names and calls at once
        b"\x80\x02\x82\x01.",  # a name by its number in copyreg
        b"Psome\n.",  # an object that lies elsewhere
    ],
)
def test_damaged_ones_end_in_one_kind_of_error(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "damaged.pkl"
    path.write_bytes(damaged)
    with pytest.raises(NotPlain):
        read_plain_pickle(path)


def test_a_text_is_no_pickle(tmp_path: Path) -> None:
    # Its "c" is the instruction that names something, and the rest of its first two lines what it would name.
    path = tmp_path / "train.csv"
    path.write_bytes(b"client_id,sample_path\n3,0\n")
    with pytest.raises(NotPlain, match=r"^the file is no pickle, or a damaged one$"):
        read_plain_pickle(path)


def test_a_missing_file_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_plain_pickle(tmp_path / "none.pkl")
