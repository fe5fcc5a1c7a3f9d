"""The catalogue of data sets: every file of ``configs/data``, and what is refused in one."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from fedhpc.data.catalogue import DataSet, Download, data_set, data_set_at, data_sets
from fedhpc.data.paths import DataMissing, find_data
from fedhpc.data.settings import Source
from fedhpc.latency.device_settings import Devices
from fedhpc.mistakes import ExperimentError
from fedhpc.models.settings import Model

BLOCKS: dict[str, TypeAdapter[Any]] = {
    "data": TypeAdapter(Source),
    "model": TypeAdapter(Model),
    "devices": TypeAdapter(Devices),
}


@pytest.mark.parametrize("name", data_sets())
def test_a_data_set_is_as_it_should_be_and_what_it_gives_to_paste_reads_it(name: str) -> None:
    known = data_set(name)
    named = set()
    for kind, block in known.paste.items():
        settings = BLOCKS[kind].validate_python(block)
        named |= {value for _, value in settings if isinstance(value, Path)}
    for place in known.all_places:
        read = any(path.is_relative_to(place) or place.is_relative_to(path) for path in named)
        assert read, f"{place} is not read by what is given to paste"
    # Other data sets may be named with it: QMNIST's writers with MNIST's digits.
    assert {data_set_at(path) for path in named} <= {name, "mnist"}


def test_no_two_data_sets_share_a_place() -> None:
    owners: dict[Path, str] = {}
    for name in data_sets():
        for place in data_set(name).all_places:
            assert owners.setdefault(place, name) == name
            assert data_set_at(place) == name


def test_published_figures() -> None:
    """As the pages say that each file names."""
    assert (data_set("emnist").clients, data_set("emnist").training, data_set("emnist").held_out) == (
        3400,
        671585,
        77483,
    )
    assert (data_set("stackoverflow").clients, data_set("stackoverflow").training) == (342_477, 135_818_730)
    assert data_set("cifar10").files[0].md5 == "c32a1d4ab5d03f1284b67883e8d87530"
    assert data_set("openimage").size == 66 * 10**9
    assert [data_set(name).clients for name in ("celeba", "sent140", "ixi", "isic2019")] == [9343, 660_120, 3, 6]


def test_paths_know_their_data_set() -> None:
    found = {
        path: data_set_at(Path(path)) for path in ("emnist", "emnist/fed_emnist_test.h5", "leaf/celeba/train/a.json")
    }
    assert list(found.values()) == ["emnist", "emnist", "celeba"]
    assert [data_set_at(Path(path)) for path in (".", "own.csv", "emnist/own.h5", "/emnist")] == [None] * 4


def test_a_missing_file_of_the_catalogue_says_how_to_fetch_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDHPC_DATA", str(tmp_path / "data"))
    with pytest.raises(DataMissing) as missing:
        find_data(Path("emnist/fed_emnist_train.h5"), tmp_path, "task.data.train")
    assert missing.value.mistakes == [
        f"task.data.train: there is no file 'emnist/fed_emnist_train.h5'; looked in {tmp_path} and in "
        f"FEDHPC_DATA={tmp_path}/data; fetch it with `fedhpc data fetch emnist`"
    ]
    with pytest.raises(DataMissing) as missing:
        find_data(Path("own.csv"), tmp_path)
    assert "fetch" not in str(missing.value)
    with pytest.raises(DataMissing) as missing:
        find_data(Path("mnist_by_writer.h5"), tmp_path)
    assert missing.value.mistakes[0].endswith(
        "; `fedhpc data fetch mnist_by_writer` says how it is had, and which task.data to write to have mnist or "
        "qmnist in its place"
    )


def test_what_may_stand_in_the_place_of_another_is_in_the_catalogue() -> None:
    assert {other for name in data_sets() for other in data_set(name).instead} <= set(data_sets())


def test_an_unknown_data_set_is_refused_with_the_nearest() -> None:
    with pytest.raises(ExperimentError, match="'emnits' is unknown; did you mean 'emnist'"):
        data_set("emnits")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"to": "/etc/passwd"}, "no path below the folder"),
        ({"to": "a/../../b"}, "no path below the folder"),
        ({"addresses": ["ftp://a/b"]}, "should match pattern"),
        ({"sha256": "abc"}, "should match pattern"),
        ({"unpack": "zip"}, "say what comes of the archive"),
        ({"gives": ["a"]}, "say of which kind"),
        ({"unpack": "zip", "gives": ["a/x", "b/x"], "unpacked": "1 GB"}, "two places have one name"),
        ({"unpack": "gz", "gives": ["a", "b"], "unpacked": "1 GB"}, "gives one thing"),
        ({"unpack": "rar", "gives": ["a"], "unpacked": "1 GB"}, "Input should be 'tar.bz2'"),
        ({"size": "1 mile"}, "valid integer"),
    ],
)
def test_a_download_that_cannot_be_meant_is_refused(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Download.model_validate({"addresses": ["https://a/b"], "to": "it/b", **changed})


def test_a_data_set_that_cannot_be_had_is_refused() -> None:
    known = {"title": "t", "paper": "p", "licence": "l", "used_by": [], "paste": {"data": {}}}
    with pytest.raises(ValidationError, match="name files to download, or places"):
        DataSet.model_validate(known)
    with pytest.raises(ValidationError, match="say what to do for them"):
        DataSet.model_validate({**known, "places": ["a"]})


def test_sizes_are_read_as_people_write_them() -> None:
    sizes = [Download.model_validate({"addresses": ["https://a/b"], "to": "b", "size": size}).size for size in SIZES]
    assert sizes == [5, 7, 39_600, 862_000_000, 2_430_000_000]


SIZES = [5, "7 B", "39.6 kB", "862 MB", "2.43 GB"]
