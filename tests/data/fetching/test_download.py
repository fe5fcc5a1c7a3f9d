from pathlib import Path

import numpy as np
import pytest

from fedhpc.data.fetching.download import download
from fedhpc.data.fetching.failures import Broken, Refused
from tests.data.fetching.conftest import Server

CONTENT = np.random.default_rng(0).bytes(200_000)
PAUSES = (0.01, 0.01)


def got(server: Server, part: Path, most: int | None = None, checked: bool = False) -> bool:
    return download(f"{server.address}/file", part, most, checked, lambda done, total: None, PAUSES)


@pytest.fixture
def part(server: Server, tmp_path: Path) -> Path:
    server.files["/file"] = CONTENT
    return tmp_path / "part"


def test_a_file_comes_whole_and_progress_is_told(server: Server, part: Path) -> None:
    told: list[tuple[int, int | None]] = []
    assert not download(f"{server.address}/file", part, None, False, lambda *moved: told.append(moved), PAUSES)
    assert part.read_bytes() == CONTENT
    assert told[-1] == (200_000, 200_000)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_a_cut_connection_is_gone_on_from(server: Server, part: Path) -> None:
    server.cuts = [50_000, 70_000]
    assert not got(server, part)  # nothing of an earlier call is in it
    assert part.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, "bytes=50000-", "bytes=120000-"]


def test_what_an_earlier_call_left_is_gone_on_from(server: Server, part: Path) -> None:
    server.cuts = [60_000, 0, 0, 0, 0]
    with pytest.raises(Broken, match="closed after 60,000 of 200,000 bytes"):
        got(server, part)
    server.cuts = []
    assert got(server, part)
    assert part.read_bytes() == CONTENT
    assert server.asked[-1] == ("/file", "bytes=60000-")


def test_a_whole_part_is_not_asked_for_again(server: Server, part: Path) -> None:
    got(server, part)
    assert got(server, part)
    assert len(server.asked) == 1


def test_a_file_that_has_changed_is_begun_again(server: Server, part: Path) -> None:
    server.cuts = [60_000, 0, 0, 0, 0]
    with pytest.raises(Broken):
        got(server, part)
    server.cuts, server.files["/file"] = [], CONTENT[::-1]
    assert not got(server, part)  # If-Range: the server sends all of the new one
    assert part.read_bytes() == CONTENT[::-1]


def test_another_addresses_part_is_not_gone_on_from(server: Server, part: Path) -> None:
    server.cuts = [60_000, 0, 0, 0, 0]
    with pytest.raises(Broken):
        got(server, part)
    server.cuts, server.files["/other"] = [], CONTENT[::-1]
    download(f"{server.address}/other", part, None, True, lambda done, total: None, PAUSES)
    assert part.read_bytes() == CONTENT[::-1]


def test_a_server_without_ranges_begins_again(server: Server, part: Path) -> None:
    server.ranges, server.cuts = False, [50_000, 120_000]
    got(server, part)
    assert part.read_bytes() == CONTENT
    # That does not go on for ever where it breaks off at the same place each time.
    server.cuts, server.files["/file"] = [70_000] * 10, CONTENT[::-1]
    part.unlink()
    with pytest.raises(Broken):
        got(server, part)
    assert len(server.asked) == 3 + 3


@pytest.mark.parametrize("checked", [False, True])
def test_without_a_tag_only_a_checksum_lets_it_go_on(server: Server, part: Path, checked: bool) -> None:
    server.tags, server.cuts = False, [50_000]
    got(server, part, checked=checked)
    assert part.read_bytes() == CONTENT
    assert server.asked[1][1] == ("bytes=50000-" if checked else None)


def test_a_file_of_unknown_length_comes_whole(server: Server, part: Path) -> None:
    server.lengths = False
    got(server, part)
    assert part.read_bytes() == CONTENT


def test_a_wrong_length_is_no_whole_file(server: Server, part: Path) -> None:
    server.extra = 5
    with pytest.raises(Broken, match=r"closed after 200,000 of 200,005 bytes|fewer bytes than are here"):
        got(server, part)


def test_a_shorter_file_than_the_part_is_begun_again(server: Server, part: Path) -> None:
    server.tags, server.cuts = False, [60_000, 0, 0, 0, 0]
    with pytest.raises(Broken):
        got(server, part, checked=True)
    server.cuts, server.files["/file"] = [], CONTENT[:100]
    got(server, part, checked=True)
    assert part.read_bytes() == CONTENT[:100]


def test_a_server_that_is_busy_is_asked_again(server: Server, part: Path) -> None:
    server.statuses = [503, 429]
    got(server, part)
    assert part.read_bytes() == CONTENT
    server.statuses = [503] * 9
    part.unlink()
    with pytest.raises(Broken, match="the server answers 503 Service Unavailable"):
        got(server, part)
    assert len(server.asked) == 3 + 3


def test_what_is_not_there_is_not_asked_for_again(server: Server, part: Path) -> None:
    with pytest.raises(Refused, match="the server answers 404 Not Found"):
        download(f"{server.address}/absent", part, None, False, lambda done, total: None, PAUSES)
    assert len(server.asked) == 1


@pytest.mark.parametrize("lengths", [True, False])
def test_more_than_was_declared_is_not_taken(server: Server, part: Path, lengths: bool) -> None:
    server.lengths = lengths
    with pytest.raises(Refused, match="the most that it should have"):
        got(server, part, most=100_000)
    got(server, part, most=200_000)


def test_nobody_there_is_told_soon(part: Path) -> None:
    with pytest.raises(Broken, match="refused"):
        download("http://127.0.0.1:9/file", part, None, False, lambda done, total: None, (0.01, 60.0))


def test_a_file_address_is_copied(part: Path, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(CONTENT)
    download(f"file://{tmp_path}/here", part, None, False, lambda done, total: None, PAUSES)
    assert part.read_bytes() == CONTENT
    with pytest.raises(Refused, match="there is no such file"):
        download(f"file://{tmp_path}/absent", part, None, False, lambda done, total: None, PAUSES)
