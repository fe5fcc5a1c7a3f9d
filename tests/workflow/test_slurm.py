"""What is asked of Slurm, as far as it can be told without one."""

from pathlib import Path

import pytest

from workflow.slurm import SlurmError, jobs_named, outside_jobs, pilot_name, sbatch, sweep_name


def test_a_folders_jobs_have_its_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    # hashlib.sha256(b"/tmp").hexdigest()[:12]
    assert (pilot_name(Path("/tmp")), sweep_name(Path("/tmp"))) == ("fedhpc-e9671acd2448", "fedhpc-sweep-e9671acd2448")
    assert pilot_name(tmp_path / "link") == pilot_name(tmp_path) != pilot_name(tmp_path / "other")


def test_a_job_inherits_nothing_of_the_job_that_submits_it() -> None:
    kept = {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SBATCH_ACCOUNT": "mine", "FEDHPC_SITE": "here"}
    of_the_job = {"SLURM_JOB_ID": "1", "SLURM_CPUS_PER_TASK": "8", "SLURMD_NODENAME": "n1", "PMI_RANK": "0"}
    assert outside_jobs({**kept, **of_the_job}) == kept


def test_where_there_is_no_slurm_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError, match="there is no sbatch on PATH"):
        sbatch(["--wrap=true"])
    with pytest.raises(SlurmError, match="there is no squeue on PATH"):
        jobs_named("fedhpc")
