"""A run's ranks find each other in a Slurm job, by srun and by mpiexec, and compute what one rank does."""

import sys
from pathlib import Path

import h5py
import pytest

from tests.slurm.cluster import Cluster
from tests.workflow.experiments import BUFFERED, digits, fedhpc, results, same_numbers, write
from workflow.placement import Placement

LAUNCHERS = {
    "srun": ("--nodes=2", "srun --mpi=pmi2"),
    # Both ranks on the job's first node.
    "mpiexec": ("--nodes=1", " ".join(["mpiexec", *Placement(nodes=("n1",)).mpiexec_options()])),
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("experiment") / "small.yaml", digits(200, algorithms={"fedbuff": BUFFERED}))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, experiment: Path) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    assert fedhpc(*_run(experiment, folder)).returncode == 0
    return folder


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_ranks(slurm: Cluster, tmp_path: Path, experiment: Path, alone: Path, launcher: str) -> None:
    nodes, words = LAUNCHERS[launcher]
    folder, log = tmp_path / "results", tmp_path / "log"
    rank = " ".join(map(str, [sys.executable, "-m", "workflow", *_run(experiment, folder)]))
    path = f"{Path(sys.executable).parent}:{slurm.environment['PATH']}"
    job = slurm.sbatch(
        nodes, "--ntasks=2", f"--output={log}", f"--wrap={words} -n 2 {rank}", environment={"PATH": path}
    )
    assert slurm.wait_for_job(job) == "COMPLETED", log.read_text()
    assert same_numbers(folder, alone)
    (result,) = results(folder).values()
    with h5py.File(result) as file:
        assert file.attrs["ranks"] == 2


def _run(experiment: Path, folder: Path) -> list[object]:
    asked = ["--algorithm", "fedbuff", "--scenario", "slow", "--trial", 0]
    return ["run", experiment, *asked, "--output", folder]
