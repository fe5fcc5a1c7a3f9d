"""``fedhpc submit`` and ``fedhpc site check`` on a real Slurm."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.workflow.experiments import SYNCHRONOUS, results, schedules_only, write
from workflow.slurm import sweep_name

SITE = "cores: 2\nretries: 0\nslurm:\n  time: '00:10:00'\n"


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    return write(tmp_path / "small.yaml", schedules_only(trials=1, algorithms={"fedavg": SYNCHRONOUS}))


def _fedhpc(slurm: Cluster, folder: Path, site: str, *words: object) -> subprocess.CompletedProcess[str]:
    (folder / "mine.yaml").write_text(site)
    command = [sys.executable, "-m", "workflow", *words, "--site", folder / "mine.yaml"]
    return slurm.run(command, check=False, timeout=200)


def test_a_chain_ends_with_the_sweep(slurm: Cluster, tmp_path: Path, experiment: Path) -> None:
    folder = tmp_path / "results"
    words = ("submit", experiment, "--output", folder, "--chain", 3)
    done = _fedhpc(slurm, tmp_path, SITE, *words)
    assert done.returncode == 0, done.stderr
    first, second, third = slurm.jobs(sweep_name(folder))
    assert done.stdout.startswith(
        f"Submitted 3 jobs, one after the other: {first}, {second}, {third}. Results: {folder}"
    )
    # A second submission would only be refused by the first one's lease, hours later.
    again = _fedhpc(slurm, tmp_path, SITE, *words)
    assert (again.returncode, "is in the queue already" in again.stderr) == (2, True)
    assert slurm.wait_for_job(first) == "COMPLETED", (folder / f"logs/slurm/sweep-{first}.log").read_text()
    assert list(results(folder)) == ["fedavg/slow/trial-0.h5"]
    assert {slurm.wait_for_job(job) for job in (second, third)} == {"CANCELLED"}
    log = (folder / f"logs/slurm/sweep-{first}.log").read_text()
    assert f"taken back from the queue: {second}, {third}" in log


def test_a_chain_ends_with_a_mistake_that_each_of_its_jobs_would_tell(slurm: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    settings = schedules_only(trials=1, algorithms={"fedavg": {**SYNCHRONOUS, "cohort": 10_000_000}})
    file = write(tmp_path / "large.yaml", settings)
    done = _fedhpc(slurm, tmp_path, SITE, "submit", file, "--output", folder, "--chain", 2)
    assert done.returncode == 0, done.stderr
    first, second = slurm.jobs(sweep_name(folder))
    assert slurm.wait_for_job(first) == "FAILED"
    assert slurm.wait_for_job(second) == "CANCELLED"
    log = (folder / f"logs/slurm/sweep-{first}.log").read_text()
    assert "algorithms.fedavg.cohort: 10000000 exceeds the population" in log
    assert f"A later job would be told the same; taken back from the queue: {second}" in log


def test_another_sweep_that_is_refused_leaves_a_chain_alone(slurm: Cluster, tmp_path: Path, experiment: Path) -> None:
    folder = tmp_path / "results"
    for node in slurm.nodes:
        slurm.drain(node)
    assert _fedhpc(slurm, tmp_path, SITE, "submit", experiment, "--output", folder, "--chain", 2).returncode == 0
    chain = slurm.jobs(sweep_name(folder))
    settings = schedules_only(trials=1, algorithms={"fedavg": {**SYNCHRONOUS, "cohort": 10_000_000}})
    other = write(tmp_path / "other.yaml", settings)
    refused = slurm.run(
        ["env", "SLURM_JOB_ID=99", sys.executable, "-m", "workflow", "sweep", other, "--output", folder], check=False
    )
    assert refused.returncode == 2, refused.stdout
    assert slurm.jobs(sweep_name(folder)) == chain
    slurm.cancel(*chain)
    for node in slurm.nodes:
        slurm.undrain(node)


def test_what_waits_is_told_and_no_longer_depends_on_its_files(
    slurm: Cluster, tmp_path: Path, experiment: Path
) -> None:
    folder = tmp_path / "results"
    for node in slurm.nodes:
        slurm.drain(node)
    assert _fedhpc(slurm, tmp_path, SITE, "submit", experiment, "--output", folder).returncode == 0
    (job,) = slurm.jobs(sweep_name(folder))
    told = slurm.run([sys.executable, "-m", "workflow", "status", folder]).stdout
    assert told.startswith("1 runs: 0 finished, 0 running, 0 failed, 1 waiting\nno sweep is at work here\n")
    assert f"queue    job {job}: pending (" in told
    experiment.write_text("nonsense")
    (tmp_path / "mine.yaml").write_text("nonsense")
    for node in slurm.nodes:
        slurm.undrain(node)
    log = folder / f"logs/slurm/sweep-{job}.log"
    assert slurm.wait_for_job(job) == "COMPLETED", log.read_text()
    assert list(results(folder)) == ["fedavg/slow/trial-0.h5"]
    told = slurm.run([sys.executable, "-m", "workflow", "status", folder]).stdout
    assert f"queue    nothing; the last job's output: {log}" in told
    # What is finished needs no job.
    words = ["submit", folder / "experiment.yaml", "--output", folder, "--site", folder / "site.yaml"]
    again = slurm.run([sys.executable, "-m", "workflow", *words])
    assert again.stdout == f"All 1 runs are finished. Results: {folder}\n"
    assert slurm.jobs(sweep_name(folder)) == []


def test_what_slurm_refuses_is_told_and_nothing_stays(slurm: Cluster, tmp_path: Path, experiment: Path) -> None:
    folder = tmp_path / "results"
    site = "cores: 2\nslurm:\n  partition: nowhere\n"
    done = _fedhpc(slurm, tmp_path, site, "submit", experiment, "--output", folder, "--chain", 2)
    assert done.returncode == 2
    assert "Slurm would not take the sweep's job: invalid partition specified: nowhere" in done.stderr
    assert slurm.jobs(sweep_name(folder)) == []
    assert not (folder / "logs").exists()


def test_blocks_that_no_node_holds_are_warned_of(slurm: Cluster, tmp_path: Path, experiment: Path) -> None:
    site = "cores: 8\nslurm: {way: blocks, time: '00:10:00'}\n"
    done = _fedhpc(slurm, tmp_path, site, "submit", experiment, "--output", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert "warning: Slurm says of a block: " in done.stdout


def test_a_folder_that_nodes_could_not_be_told_is_refused_at_once(
    slurm: Cluster, tmp_path: Path, experiment: Path
) -> None:
    done = _fedhpc(slurm, tmp_path, SITE, "submit", experiment, "--output", tmp_path / "my results")
    assert (done.returncode, "choose an --output of letters, digits" in done.stderr) == (2, True)
    assert slurm.jobs(sweep_name(tmp_path / "my results")) == []


@pytest.mark.parametrize(
    ("site", "ranks"),
    [
        ("cores: 2\nslurm: {}\n", "ok     2 ranks on n1 by "),
        ("cores: 2\nlauncher: srun --mpi=pmi2\nnodes_per_run: 2\nslurm: {nodes: 2}\n", "ok     2 ranks on n1, n2 by "),
        ("cores: 2\ngpus: 2\nslurm: {way: blocks, options: [--gpus-per-node=2]}\n", "ok     a job sees 2 GPUs of n1"),
    ],
)
def test_a_site_that_works(slurm: Cluster, tmp_path: Path, site: str, ranks: str) -> None:
    done = _fedhpc(slurm, tmp_path, site, "site", "check", "--output", tmp_path / "results")
    assert done.returncode == 0, done.stdout
    assert "wrong" not in done.stdout
    assert ranks in done.stdout


@pytest.mark.parametrize(
    ("site", "told"),
    [
        ("slurm: {partition: nowhere}\n", "invalid partition specified: nowhere"),
        ("slurm: {options: [--gpus-per-node=9]}\n", "Requested node configuration is not available"),
        ("cores: 2\nlauncher: srun\nslurm: {}\n", "2 ranks were started (/usr/bin/srun --overlap"),
        ("cores: 2\ngpus: 2\nslurm: {}\n", "a job sees 0 GPUs of n1, and the site says 2"),
        ("cores: 2\nsetup: |\n  ls /no/such/folder\nslurm: {}\n", "failed on "),
    ],
)
def test_a_site_that_does_not_work(slurm: Cluster, tmp_path: Path, site: str, told: str) -> None:
    done = _fedhpc(slurm, tmp_path, site, "site", "check", "--output", tmp_path / "results")
    assert done.returncode == 2
    assert told in done.stdout
    assert slurm.jobs("fedhpc-site-check") == []


def test_a_job_that_does_not_begin_is_taken_back(slurm: Cluster, tmp_path: Path) -> None:
    busy = slurm.sbatch(f"--nodes={len(slurm.nodes)}", "--exclusive", "--output=/dev/null", "--wrap=sleep 300")
    slurm.wait_for_job(busy, "RUNNING")
    words = ("site", "check", "--output", tmp_path / "results", "--wait", 2)
    done = _fedhpc(slurm, tmp_path, "cores: 2\nslurm: {}\n", *words)
    assert done.returncode == 2
    assert "the job does not begin: PENDING (Resources)" in done.stdout
    assert slurm.jobs("fedhpc-site-check") == []
    slurm.cancel(busy)
