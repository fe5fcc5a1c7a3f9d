"""The Slurm of these tests is a real one: jobs run and wait, nodes are lost and come back, and its end is clean."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm import cluster as module
from tests.slurm.cluster import Cluster, missing
from tests.workflow.experiments import wait_until

ROOT = Path(__file__).parents[2]


def _asleep(slurm: Cluster, *words: object, seconds: int = 300) -> int:
    return slurm.sbatch("--output=/dev/null", *words, f"--wrap=exec sleep {seconds}")


def test_a_job_sees_its_nodes_and_gpus(slurm: Cluster, tmp_path: Path) -> None:
    told = tmp_path / "told"
    words = 'srun --label bash -c "echo \\$SLURMD_NODENAME \\$CUDA_VISIBLE_DEVICES"'
    job = slurm.sbatch("--nodes=2", "--ntasks=2", "--gres=gpu:2", f"--output={told}", f"--wrap={words}")
    assert slurm.wait_for_job(job) == "COMPLETED"
    assert sorted(told.read_text().splitlines()) == ["0: n1 0,1", "1: n2 0,1"]


def test_jobs_wait_for_room_and_are_cancelled(slurm: Cluster) -> None:
    first, second = _asleep(slurm, "--nodes=4", "--exclusive", "--job-name=first"), _asleep(slurm)
    assert slurm.wait_for_job(first, "RUNNING") == "RUNNING"
    assert (slurm.state(second), slurm.jobs(), slurm.jobs("first")) == ("PENDING", [first, second], [first])
    assert slurm.nodes_of(first) == ("n1", "n2", "n3", "n4")
    slurm.hold(second)
    slurm.cancel(first)
    assert slurm.wait_for_job(first) == "CANCELLED"
    assert slurm.reason(second) == "JobHeldAdmin"
    slurm.release(second)
    assert slurm.wait_for_job(second, "RUNNING") == "RUNNING"


def test_a_lost_node_is_down_and_comes_back(slurm: Cluster) -> None:
    job = _asleep(slurm, "--nodelist=n2")
    slurm.wait_for_job(job, "RUNNING")
    wait_until(lambda: slurm.processes("n2", "sleep"), 10)
    slurm.kill_node("n2")
    assert not slurm.processes("n2")
    assert slurm.processes("n1", "slurmd")
    # Nobody tells Slurm.
    slurm.wait_for_node("n2", "DOWN")
    # Slurm requeues a job whose node is lost.
    assert slurm.wait_for_job(job, "PENDING") == "PENDING"
    slurm.restore_node("n2")
    assert slurm.wait_for_job(job, "RUNNING", seconds=60) == "RUNNING"


def test_a_requeued_job_runs_again(slurm: Cluster, tmp_path: Path) -> None:
    told = tmp_path / "told"
    job = slurm.sbatch(f"--output={tmp_path / 'log'}", f"--wrap=echo $SLURM_RESTART_COUNT >> {told}; exec sleep 300")
    wait_until(told.exists, 20)
    slurm.requeue(job)
    wait_until(lambda: told.read_text().split() == ["1"] or None, 60)


def test_a_drained_node_takes_no_job(slurm: Cluster) -> None:
    slurm.drain("n3")
    job = _asleep(slurm, "--nodelist=n3")
    assert slurm.node_state("n3") == "IDLE+DRAIN"
    slurm.undrain("n3")
    assert slurm.wait_for_job(job, "RUNNING") == "RUNNING"


def test_a_time_limit_ends_a_job(slurm: Cluster) -> None:
    job = _asleep(slurm)
    slurm.wait_for_job(job, "RUNNING")
    start = time.monotonic()
    slurm.let_time_run_out(job)
    assert slurm.wait_for_job(job) == "TIMEOUT"
    assert time.monotonic() - start < 45


def test_what_started_it_may_die(tmp_path: Path) -> None:
    """kill -9, as of an interrupted pytest: the daemons and what runs on the nodes end, and the folder is gone."""
    program = (
        "import time\nfrom tests.slurm.cluster import Cluster\nwith Cluster(nodes=1) as slurm:\n"
        "    job = slurm.sbatch('--output=/dev/null', '--wrap=trap : TERM; while true; do sleep 1; done')\n"
        "    slurm.wait_for_job(job, 'RUNNING')\n    print(slurm.folder, flush=True)\n    time.sleep(300)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    folder = Path(starter.stdout.readline().strip())
    assert folder.is_dir()
    starter.kill()
    starter.wait()
    wait_until(lambda: not folder.exists(), 30)
    assert not _of(folder)


def _of(folder: Path) -> list[int]:
    """Processes of the Slurm there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"SLURM_CONF={folder}/slurm.conf".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_where_slurm_is_missing_its_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert missing() == ""
    monkeypatch.setattr(module, "_path", lambda environment: str(tmp_path))
    assert missing().endswith(
        "install Slurm ('apt-get install --no-install-recommends slurm-wlm munge' on Debian and Ubuntu)"
    )
