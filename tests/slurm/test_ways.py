"""A sweep on a real Slurm, each way that a site may say: the bytes of a run alone, and no two runs in one place."""

import itertools
import sys
from pathlib import Path

import pytest
import yaml

from fedhpc.experiment import Run
from tests.slurm.cluster import Cluster
from tests.workflow.experiments import fedhpc, numbers, results, schedules_only, wait_until, write
from workflow.attempts import attempts_file, read_attempts

ROOT = Path(__file__).parents[2]
TRIALS = 2
_RUNS = [Run(algorithm, "slow", trial) for algorithm in ("fedbuff", "fedavg") for trial in range(TRIALS)]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("experiment") / "small.yaml", schedules_only(trials=TRIALS))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, experiment: Path) -> Path:
    """The last trial of each algorithm, by fedhpc run."""
    folder = tmp_path_factory.mktemp("alone")
    for algorithm in ("fedbuff", "fedavg"):
        asked = ["--algorithm", algorithm, "--scenario", "slow", "--trial", TRIALS - 1, "--output", folder]
        assert fedhpc("run", experiment, *asked).returncode == 0
    return folder


SITES = {
    "an allocation, a run a node": (
        {"slurm": {"way": "allocation"}, "cores": 2},
        ["--nodes=3", "--cpus-per-task=2"],
    ),
    "an allocation, two runs a node, each with a GPU": (
        {
            "ranks_per_run": 1,
            "gpus_per_rank": 1,
            "cores": 2,
            "gpus": 2,
            "slurm": {"way": "allocation"},
        },
        ["--nodes=2", "--cpus-per-task=2", "--gpus-per-node=2"],
    ),
    "an allocation, two nodes a run": (
        {"nodes_per_run": 2, "cores": 2, "launcher": "srun --mpi=pmi2", "slurm": {"way": "allocation", "nodes": 4}},
        ["--nodes=4", "--cpus-per-task=2"],
    ),
    "blocks of a node": (
        {
            "cores": 2,
            "slurm": {
                "way": "blocks",
                "max_blocks": 3,
                "poll_seconds": 1,
                "time": "10",
                "options": ["--comment=two words; and 'quotes'"],
            },
        },
        ["--cpus-per-task=1"],
    ),
    "blocks of two nodes, ranks by srun": (
        {
            "cores": 2,
            "launcher": "srun --mpi=pmi2",
            "slurm": {"way": "blocks", "nodes": 2, "max_blocks": 1, "poll_seconds": 1, "time": "10"},
        },
        ["--cpus-per-task=1"],
    ),
    "blocks of two nodes, two nodes a run": (
        {
            "nodes_per_run": 2,
            "cores": 2,
            "launcher": "srun --mpi=pmi2",
            "slurm": {"way": "blocks", "nodes": 2, "max_blocks": 1, "poll_seconds": 1, "time": "10"},
        },
        ["--cpus-per-task=1"],
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "results"


def _submit(slurm: Cluster, tmp_path: Path, experiment: Path, site: dict[str, object], options: list[str]) -> int:
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(site))
    return slurm.sbatch(
        *options,
        f"--output={tmp_path / 'log'}",
        ROOT / "jobs" / "sweep.sh",
        experiment,
        "--site",
        file,
        "--output",
        tmp_path / "results",
        environment={"FEDHPC_ENVIRONMENT": "none", "FEDHPC_PYTHON": sys.executable, "FEDHPC_HOME": str(ROOT)},
    )


@pytest.mark.parametrize("way", SITES)
def test_every_way_gives_the_same_bytes(
    slurm: Cluster, tmp_path: Path, folder: Path, experiment: Path, alone: Path, way: str
) -> None:
    site, options = SITES[way]
    job = _submit(slurm, tmp_path, experiment, site, options)
    assert slurm.wait_for_job(job, seconds=200) == "COMPLETED", (tmp_path / "log").read_text()
    assert len(results(folder)) == 2 * TRIALS
    for name, path in results(alone).items():
        assert numbers(folder / name) == numbers(path)
    _assert_apart(folder)
    # Nothing of it is left in the queue, and nothing half written.
    wait_until(lambda: not slurm.jobs(), 30)
    assert not list(folder.glob("**/*.tmp.*"))


def _assert_apart(folder: Path) -> None:
    """Two attempts that overlap in time share no core and no GPU of a node; of whole nodes, none."""
    attempts = [each for run in _RUNS for each in read_attempts(attempts_file(folder, run))]
    assert len(attempts) == len(_RUNS)
    for one, other in itertools.combinations(attempts, 2):
        if one.began_wall < other.ended_wall and other.began_wall < one.ended_wall and {*one.nodes} & {*other.nodes}:
            assert one.cores
            assert not {*one.cores} & {*other.cores}
            assert not {*one.gpus} & {*other.gpus}
