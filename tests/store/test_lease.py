import errno
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedhpc.store import lease
from fedhpc.store.lease import LeaseHeld, LeaseLost, check_lease, is_ending, live_owner, outlast, take_lease
from fedhpc.store.replacing import NotWritable
from tests.store.records import ROOT

HOLDER = """
import sys, time
from pathlib import Path
from fedhpc.store.lease import take_lease
with take_lease(Path(sys.argv[1])) as lease:
    print(lease.token, flush=True)
    sys.stdin.read()
"""

TAKER = """
import sys, time
from pathlib import Path
from fedhpc.store.lease import LeaseHeld, take_lease
for folder in sys.argv[1:]:
    print("ready", flush=True)
    instant = float(sys.stdin.readline())
    while time.time() < instant:
        pass
    try:
        take_lease(Path(folder))
        print("won", flush=True)
    except LeaseHeld:
        print("lost", flush=True)
sys.stdin.read()
"""


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def holder(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = python(HOLDER, folder)
    try:
        yield process, line_of(process)
    finally:
        process.kill()
        process.communicate()


def leave_lease(folder: Path, **changes: Any) -> None:
    """A lease file as somebody else's sweep leaves it."""
    owner = {
        "token": "f" * 32,
        "host": "another-node",
        "boot": "another boot",
        "pid": 77,
        "started": 12345,
        "heartbeat": time.time(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lease.json").write_text(json.dumps({**owner, **changes}))


def test_law_7_a_second_live_sweep_is_refused(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, token):
        with pytest.raises(LeaseHeld) as refused:
            take_lease(tmp_path)
        for part in (str(tmp_path), f"process {process.pid}", socket.gethostname(), f"kill {process.pid}", "--output"):
            assert part in str(refused.value)
        assert live_owner(tmp_path) == str(refused.value)
        check_lease(tmp_path, token)


def test_law_7_a_sweep_that_ended_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, token):
        process.communicate("")
        assert process.returncode == 0
        assert list(tmp_path.iterdir()) == []
        assert live_owner(tmp_path) is None
        with pytest.raises(LeaseLost, match="has ended or was stopped"):
            check_lease(tmp_path, token)
        take_lease(tmp_path)


def test_law_7_after_a_kill_the_lease_is_taken_over_at_once(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, token):
        process.kill()
        # Not waited for yet: a zombie owns nothing either.
        while lease._started(process.pid) != -1:
            time.sleep(0.01)
        assert live_owner(tmp_path) is None
        heir = take_lease(tmp_path)
        check_lease(tmp_path, heir.token)
        with pytest.raises(LeaseLost, match=f"process {os.getpid()} on {socket.gethostname()}"):
            check_lease(tmp_path, token)
        assert [file.name for file in tmp_path.iterdir()] == ["lease.json"]


def test_law_7_another_process_of_the_same_number_is_no_owner(tmp_path: Path) -> None:
    take_lease(tmp_path)
    mine = json.loads((tmp_path / "lease.json").read_text())
    leave_lease(tmp_path, **{**mine, "started": mine["started"] - 1})
    assert live_owner(tmp_path) is None
    take_lease(tmp_path)


def test_law_7_a_suspended_owner_on_this_machine_keeps_its_lease(tmp_path: Path) -> None:
    take_lease(tmp_path)
    mine = json.loads((tmp_path / "lease.json").read_text())
    leave_lease(tmp_path, **{**mine, "heartbeat": time.time() - 3600})
    with pytest.raises(LeaseHeld, match="last heartbeat 3600 s ago"):
        take_lease(tmp_path)


@pytest.mark.parametrize("elsewhere", [{}, {"host": socket.gethostname()}, {"boot": lease._boot()}])
def test_law_7_an_owner_elsewhere_lives_by_its_heartbeat(tmp_path: Path, elsewhere: dict[str, str]) -> None:
    leave_lease(tmp_path, heartbeat=time.time() - 20, **elsewhere)
    with pytest.raises(LeaseHeld, match="free 30 s after its last heartbeat"):
        take_lease(tmp_path)
    leave_lease(tmp_path, heartbeat=time.time() - 31, **elsewhere)
    assert live_owner(tmp_path) is None
    heir = take_lease(tmp_path)
    check_lease(tmp_path, heir.token)


def test_law_7_a_heartbeat_of_a_far_future_holds_nothing(tmp_path: Path) -> None:
    leave_lease(tmp_path, heartbeat=1e18)
    take_lease(tmp_path)


def test_law_7_patience_is_the_callers(tmp_path: Path) -> None:
    leave_lease(tmp_path, heartbeat=time.time() - 20)
    take_lease(tmp_path, patience=10)


def test_law_7_a_silent_owner_elsewhere_is_outlasted(tmp_path: Path) -> None:
    leave_lease(tmp_path, heartbeat=time.time() - 8)
    started = time.monotonic()
    outlast(tmp_path, patience=10)
    assert 1.5 < time.monotonic() - started < 8
    take_lease(tmp_path, patience=10)


def test_law_7_an_owner_elsewhere_is_heard_of_and_obeyed(tmp_path: Path) -> None:
    leave_lease(tmp_path, heartbeat=time.time() - 8)
    beat = threading.Timer(0.3, leave_lease, (tmp_path,), {"heartbeat": time.time()})
    beat.start()
    started = time.monotonic()
    outlast(tmp_path, patience=3600)
    assert time.monotonic() - started < 30
    beat.join()
    with pytest.raises(LeaseHeld):
        take_lease(tmp_path, patience=3600)


def test_law_7_nobody_waits_for_an_owner_here_or_for_none(tmp_path: Path) -> None:
    outlast(tmp_path, patience=3600)
    with take_lease(tmp_path):
        outlast(tmp_path, patience=3600)


def test_law_7_a_clock_ahead_is_no_death(tmp_path: Path) -> None:
    leave_lease(tmp_path, heartbeat=time.time() + 5)
    with pytest.raises(LeaseHeld, match="last heartbeat 0 s ago"):
        take_lease(tmp_path)


_OWNER = '"host": "h", "boot": "b", "started": 1, "heartbeat": 1e18'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"token": "x"}',
        "\x00" * 50,
        f'{{"token": "../../x", "pid": 1, {_OWNER}}}',
        f'{{"token": "{"a" * 32}", "pid": Infinity, {_OWNER}}}',
        "[" * 5000,
    ],
)
def test_law_7_a_lease_that_cannot_be_read_holds_while_it_is_young(tmp_path: Path, content: str) -> None:
    file = tmp_path / "lease.json"
    file.write_text(content)
    with pytest.raises(LeaseHeld, match=r"cannot read.*delete .*lease\.json"):
        take_lease(tmp_path)
    long_ago = time.time() - 60
    os.utime(file, (long_ago, long_ago))
    check_lease(tmp_path, take_lease(tmp_path).token)


@pytest.mark.parametrize("before", ["nothing", "a dead owner's lease"])
def test_law_7_of_takers_at_once_exactly_one_wins(tmp_path: Path, before: str) -> None:
    folders = [tmp_path / str(number) for number in range(12)]
    if before != "nothing":
        for folder in folders:
            leave_lease(folder, heartbeat=0.0)
    takers = [python(TAKER, *folders) for _ in range(4)]
    try:
        for folder in folders:
            assert [line_of(taker) for taker in takers] == ["ready"] * 4
            for taker in takers:
                assert taker.stdin is not None
                taker.stdin.write(f"{time.time() + 0.02}\n")
                taker.stdin.flush()
            assert sorted(line_of(taker) for taker in takers) == ["lost", "lost", "lost", "won"]
            assert [file.name for file in folder.iterdir()] == ["lease.json"]
    finally:
        for taker in takers:
            taker.kill()
            taker.communicate()


def test_law_7_an_heir_killed_in_the_act_bars_nobody(tmp_path: Path) -> None:
    leave_lease(tmp_path, heartbeat=0.0)
    (tmp_path / "lease.json").rename(tmp_path / f"lease.json.tmp.heir-of-{'f' * 32}")
    leave_lease(tmp_path, heartbeat=0.0)
    check_lease(tmp_path, take_lease(tmp_path).token)


def test_the_heartbeat_goes_on_while_the_lease_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.02)
    with take_lease(tmp_path) as held:
        first = json.loads((tmp_path / "lease.json").read_text())
        now = first
        while now["heartbeat"] == first["heartbeat"]:
            now = json.loads((tmp_path / "lease.json").read_text())
        assert {**now, "heartbeat": 0} == {**first, "heartbeat": 0}
        check_lease(tmp_path, held.token)


def test_law_7_a_lost_lease_is_never_raised_from_the_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.01)
    with take_lease(tmp_path) as held:
        leave_lease(tmp_path)
        others = (tmp_path / "lease.json").read_bytes()
        held._thread.join(10)
        assert not held._thread.is_alive()
        with pytest.raises(LeaseLost, match="process 77 on another-node"):
            held.beat()
    assert (tmp_path / "lease.json").read_bytes() == others
    held.release()
    assert (tmp_path / "lease.json").read_bytes() == others


def test_law_7_a_lease_that_is_gone_stays_gone(tmp_path: Path) -> None:
    held = take_lease(tmp_path)
    (tmp_path / "lease.json").unlink()
    with pytest.raises(LeaseLost):
        held.beat()
    assert list(tmp_path.iterdir()) == []


def test_a_passing_disk_error_loses_no_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.01)
    put, failures = lease._put, []

    def full_at_first(file: Path, owner: Any) -> None:
        if len(failures) < 3:
            failures.append(owner.heartbeat)
            raise OSError(errno.ENOSPC, "No space left on device")
        put(file, owner)

    with take_lease(tmp_path):
        first = (tmp_path / "lease.json").read_text()
        monkeypatch.setattr(lease, "_put", full_at_first)
        while (tmp_path / "lease.json").read_text() == first:
            time.sleep(0.005)
    assert len(failures) == 3


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    check_lease(tmp_path, take_lease(tmp_path).token)
    leave_lease(tmp_path, heartbeat=0.0)
    check_lease(tmp_path, take_lease(tmp_path).token)
    assert [file.name for file in tmp_path.iterdir()] == ["lease.json"]


def test_a_stale_handle_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = take_lease(tmp_path)
    read, stale = Path.read_text, [1]

    def renamed_over(path: Path, *arguments: Any, **named: Any) -> str:
        if path.name == "lease.json" and stale:
            stale.pop()
            raise OSError(errno.ESTALE, "Stale file handle")
        return read(path, *arguments, **named)

    monkeypatch.setattr(Path, "read_text", renamed_over)
    check_lease(tmp_path, held.token)
    assert not stale


def test_a_sweep_that_is_asked_to_stop_says_so_as_long_as_it_lives(tmp_path: Path) -> None:
    held = take_lease(tmp_path)
    assert not is_ending(tmp_path, held.token)
    held.end()
    assert is_ending(tmp_path, held.token)
    held.beat()
    assert is_ending(tmp_path, held.token)
    check_lease(tmp_path, held.token)
    assert json.loads((tmp_path / "lease.json").read_text())["ending"] is True
    with pytest.raises(LeaseHeld, match="a sweep that is stopping holds this folder"):
        take_lease(tmp_path)
    with pytest.raises(LeaseLost):
        is_ending(tmp_path, "0" * 32)
    held.release()
    heir = take_lease(tmp_path)
    assert not is_ending(tmp_path, heir.token)
    with pytest.raises(LeaseLost):
        held.end()
    assert not is_ending(tmp_path, heir.token)


def test_a_lease_from_before_there_were_endings_is_none(tmp_path: Path) -> None:
    leave_lease(tmp_path)
    assert not is_ending(tmp_path, "f" * 32)


def test_a_folder_in_the_place_of_a_lease_is_nobodys_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "lease.json").mkdir()
    assert live_owner(tmp_path) is None
    with pytest.raises(NotWritable, match=r"lease\.json cannot be written: File exists; move what is in the place of"):
        take_lease(tmp_path)
    (tmp_path / "lease.json").rmdir()
    take_lease(tmp_path).release()
