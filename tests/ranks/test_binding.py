"""A run's cores and GPUs, and each rank's share of them."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.ranks.binding import local_place, share
from tests.mpi import mpi
from tests.workflow.experiments import fedhpc, schedules_only, write

BOUND = """
import json, os, sys
from pathlib import Path
from fedhpc.ranks.binding import bind, local_place
bind(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
told = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")}
told["cores"] = sorted(os.sched_getaffinity(0))
Path(sys.argv[3], str(local_place(os.environ)[0])).write_text(json.dumps(told))
"""


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, (0, 1)),
        ({"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, (1, 2)),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, (3, 4)),
        ({"SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}, (1, 4)),
        ({"SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "2,1"}, (0, 2)),
        # mpiexec within a step of Slurm's.
        (
            {"SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1", "PALS_LOCAL_RANKID": "5", "PALS_LOCAL_SIZE": "8"},
            (5, 8),
        ),
    ],
)
def test_every_launcher_says_which_rank_of_a_host_this_is(environment: dict[str, str], place: tuple[int, int]) -> None:
    assert local_place(environment) == place


@given(st.integers(1, 9), st.integers(1, 40))
def test_shares_are_alike_and_apart(ranks: int, things: int) -> None:
    shares = [list(share(range(things), (rank, ranks))) for rank in range(ranks)]
    assert len({len(each) for each in shares}) == 1
    dealt = [thing for each in shares for thing in each]
    if things >= ranks:
        assert dealt == list(range(things // ranks * ranks))
    else:
        assert dealt == [rank % things for rank in range(ranks)]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine lets us use one core only")
@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
def test_ranks_bind_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("ROCR_VISIBLE_DEVICES", raising=False)
    if variable == "ROCR_VISIBLE_DEVICES":
        monkeypatch.setenv(variable, "0,1,2,3")
    cores = sorted(os.sched_getaffinity(0))[:2]
    asked = [json.dumps(cores), json.dumps(["2", "3"]), str(tmp_path)]
    done = mpi(2, [sys.executable, "-c", BOUND, *asked])
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        told = json.loads((tmp_path / str(rank)).read_text())
        assert told.pop("cores") == [cores[rank]]
        assert told.pop(variable) == str(2 + rank)
        assert list(told.values()) == [None]


def test_cores_that_are_not_there_are_told(tmp_path: Path) -> None:
    file = write(tmp_path / "small.yaml", schedules_only())
    asked = ["--algorithm", "fedavg", "--scenario", "slow", "--trial", 0, "--output", tmp_path / "results"]
    done = fedhpc("run", file, *asked, "--cores", 4000)
    assert done.returncode == 2
    assert "rank 0 of this host is to have the cores 4000, and its launcher lets it use 0" in done.stderr
    assert "'a,b' is no list of numbers; write 0,1, say" in fedhpc("run", file, *asked, "--cores", "a,b").stderr
    here = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    assert fedhpc("run", file, *asked, "--cores", here, "--gpus", 7).returncode == 0
