"""Whose process is whose, and that the dead leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedhpc.processes import is_alive
from tests.workflow.experiments import wait_until
from workflow.processes import end_processes


@contextmanager
def _sleeper(code: str = "import time; time.sleep(60)", **marks: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **marks}, start_new_session=True)
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(sys.executable.encode()))
        yield process
    finally:
        process.kill()
        process.wait()


def test_only_processes_with_every_mark_are_ended(tmp_path: Path) -> None:
    marks = {"FEDHPC_TEST_A": str(tmp_path), "FEDHPC_TEST_B": "run"}
    with _sleeper(**marks) as ours, _sleeper(FEDHPC_TEST_A=str(tmp_path)) as half, _sleeper() as other:
        assert end_processes(marks) == 1
        assert ours.wait(5) == -signal.SIGKILL
        assert half.poll() is None
        assert other.poll() is None


def test_a_mark_is_the_whole_value(tmp_path: Path) -> None:
    with _sleeper(FEDHPC_TEST_A=f"{tmp_path}2") as longer:
        assert end_processes({"FEDHPC_TEST_A": str(tmp_path)}) == 0
        assert longer.poll() is None


def test_processes_that_end_by_themselves_are_waited_for(tmp_path: Path) -> None:
    marks = {"FEDHPC_TEST_A": str(tmp_path)}
    with _sleeper("import time; time.sleep(1)", **marks) as brief:
        assert end_processes(marks, patience=30) == 0
        assert brief.wait(5) == 0


def test_neither_this_process_nor_those_it_descends_from_are_ended(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; from workflow.processes import end_processes\n"
        f"print(end_processes({{'FEDHPC_TEST_A': {str(tmp_path)!r}}}))"
    )
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], check=True)"
    done = subprocess.run(
        [sys.executable, "-c", nested],
        env={**os.environ, "FEDHPC_TEST_A": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "0\n")


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    wait_until(lambda: not is_alive(process.pid), 20)
    assert process.wait() == 0
    assert is_alive(os.getpid())


def test_a_command_ends_with_its_parent() -> None:
    code = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'workflow.parent_death', 'sleep', '60']\n"
        "print(subprocess.Popen(command).pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    wait_until(lambda: Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"sleep"))
    time.sleep(0.1)
    assert is_alive(child)
    assert os.getpgid(child) == child
    parent.kill()
    parent.wait()
    wait_until(lambda: not is_alive(child), 10)
