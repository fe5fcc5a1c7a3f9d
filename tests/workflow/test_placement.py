"""Which cores, GPUs and nodes a run gets: no two runs share any."""

import os
import select
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow.placement import NoRoom, Placement, claimed, has_lost, packed, placed, visible_gpus
from workflow.sites import Site


def _never() -> None:
    raise AssertionError("there is nothing to wait for")


def test_packed_by_hand() -> None:
    cores, gpus = [0, 1, 2, 3, 8, 9, 10, 11], ("4", "5", "6", "7")
    assert packed(0, 4, 2, cores, gpus, "n7") == Placement(("n7",), (0, 1, 2, 3), ("4", "5"))
    assert packed(1, 4, 2, cores, gpus, "n7") == Placement(("n7",), (8, 9, 10, 11), ("6", "7"))
    assert packed(1, 0, 0, cores, gpus, None) == Placement()
    with pytest.raises(NoRoom, match="run 3 of this node needs 4 cores, and the node has 8 for all"):
        packed(2, 4, 2, cores, gpus, "n7")
    with pytest.raises(NoRoom, match="needs 3 gpus, and the node has 4"):
        packed(1, 4, 3, cores, gpus, "n7")


@given(st.integers(1, 8), st.integers(1, 9), st.integers(0, 4))
def test_no_two_runs_share_a_core_or_a_gpu(runs: int, cores_each: int, gpus_each: int) -> None:
    cores = range(runs * cores_each)
    gpus = [f"GPU-{number}" for number in range(runs * gpus_each)]
    placements = [packed(number, cores_each, gpus_each, cores, gpus, None) for number in range(runs)]
    assert [core for each in placements for core in each.cores] == list(cores)
    assert [gpu for each in placements for gpu in each.gpus] == gpus


def test_the_gpus_are_those_that_the_job_shows() -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "2,3"}, 4) == ("2", "3")
    assert visible_gpus({"ROCR_VISIBLE_DEVICES": "0,5", "CUDA_VISIBLE_DEVICES": "7"}, 4) == ("0", "5")
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, 2) == visible_gpus({}, 2) == ("0", "1")


def test_srun_is_told_nodes_and_counts() -> None:
    two = Placement(nodes=("n1", "n4"))
    options = two.srun_options(6, outlives_ranks=False)
    assert {"--overlap", "--nodes=2", "--nodelist=n1,n4", "--ntasks-per-node=3", "--kill-on-bad-exit=1"} <= {*options}
    assert "--kill-on-bad-exit=0" in two.srun_options(6, outlives_ranks=True)
    # A server and six silos: Slurm divides them.
    assert not [option for option in two.srun_options(7, True) if option.startswith("--ntasks-per-node")]
    assert Placement().srun_options(2, False) == Placement().mpiexec_options() == Placement().run_options() == []
    assert Placement(cores=(1, 3), gpus=("0",)).run_options() == ["--cores", "1,3", "--gpus", "0"]


def test_a_worker_takes_its_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = sorted(os.sched_getaffinity(0))
    site = Site.model_validate(
        {"ranks_per_run": 1, "gpus_per_rank": 2, "cores": len(cores), "gpus": 2 * len(cores), "slurm": {}}
    )
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURMD_NODENAME", "n9")
    for variable in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    for number, core in enumerate(cores):
        monkeypatch.setenv("PARSL_WORKER_RANK", str(number))
        with placed(site, _never) as placement:
            assert placement == Placement(("n9",), (core,), (str(2 * number), str(2 * number + 1)))


def test_without_a_queue_cores_are_left_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SLURM_JOB_ID", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PARSL_WORKER_RANK", "1")
    with placed(Site.model_validate({"ranks_per_run": 1}), _never) as placement:
        assert placement == Placement()
    with placed(Site.model_validate({"ranks_per_run": 1, "gpus_per_rank": 1, "gpus": 2}), _never) as placement:
        assert placement == Placement(gpus=("1",))


_CLAIM = """
import sys, time
from workflow import placement
placement.living_nodes = lambda: {nodes}
with placement.claimed({job!r}, {wanted}, lambda: None) as found:
    print(",".join(found.nodes), flush=True)
    time.sleep(600)
"""


def _claimer(job: str, nodes: list[str], wanted: int) -> subprocess.Popen[str]:
    program = _CLAIM.format(job=job, nodes=nodes, wanted=wanted)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def test_nodes_are_claimed_once_and_given_back_by_the_dead() -> None:
    nodes, job = ["n1", "n2", "n3", "n4", "n5"], f"test-{os.getpid()}"
    first, second = (_claimer(job, nodes, 2) for _ in range(2))
    third = None
    try:
        assert first.stdout
        assert second.stdout
        taken = [each.stdout.readline().strip().split(",") for each in (first, second) if each.stdout]
        assert sorted(node for of_run in taken for node in of_run) == ["n1", "n2", "n3", "n4"]
        third = _claimer(job, nodes, 2)
        assert third.stdout
        # One is free, and a run takes two.
        assert select.select([third.stdout], [], [], 4) == ([], [], [])
        first.kill()
        assert sorted(third.stdout.readline().strip().split(",")) == sorted([taken[0][0], taken[0][1]])
    finally:
        for each in (first, second, third):
            if each is not None:
                each.kill()
                each.communicate()


def test_a_lost_node_is_not_claimed_nor_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    job = f"lost-{os.getpid()}"
    monkeypatch.setattr("workflow.placement.living_nodes", lambda: ["n1", "n3"])
    with claimed(job, 2, _never) as placement:
        assert placement == Placement(nodes=("n1", "n3"))
        assert not has_lost(placement)
        monkeypatch.setattr("workflow.placement.living_nodes", lambda: ["n1"])
        assert has_lost(placement)
    with pytest.raises(NoRoom, match=f"a run takes 2 nodes, and of job {job} 1 are left; submit again for more"):
        claimed(job, 2, _never).__enter__()


def test_who_waits_for_nodes_hears_that_the_sweep_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    job = f"busy-{os.getpid()}"
    monkeypatch.setattr("workflow.placement.living_nodes", lambda: ["n1", "n2"])
    with claimed(job, 2, _never), pytest.raises(AssertionError, match="there is nothing to wait for"):
        claimed(job, 2, _never).__enter__()
