"""``fedhpc site check`` on this machine, whose ranks and folders are real; on a Slurm, see tests/slurm."""

import os
import sys
from pathlib import Path

from tests.workflow.experiments import fedhpc

ENVIRONMENT = {"FEDHPC_ENVIRONMENT": "none", "FEDHPC_PYTHON": sys.executable}


def _check(folder: Path, site: str, **variables: str) -> tuple[int, list[str]]:
    (folder / "mine.yaml").write_text(site)
    done = fedhpc(
        *("site", "check", "--site", folder / "mine.yaml", "--output", folder / "results"),
        environment={**ENVIRONMENT, **variables},
    )
    assert done.stderr == ""
    # The probe's own folder is gone.
    assert list((folder / "results").iterdir()) == []
    return done.returncode, done.stdout.splitlines()


def test_a_machine_that_works(tmp_path: Path) -> None:
    status, lines = _check(tmp_path, "ranks_per_run: 4\n")
    assert status == 0
    assert len(lines) == 8
    assert all(line.startswith("ok     ") for line in lines)
    told = "\n".join(lines)
    assert f"reads, writes and renames in {tmp_path / 'results'}, with hard links" in told
    assert f"a job sees {len(os.sched_getaffinity(0))} cores of" in told
    assert "ok     2 ranks on " in told
    assert "ok     MPI: MPICH" in told


def test_a_machine_without_slurm(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    status, lines = _check(tmp_path, "slurm: {}\n", PATH=str(tmp_path / "bin"))
    assert (status, len(lines)) == (2, 2)
    assert lines[0].startswith("wrong  there is no sbatch on PATH: this machine has no Slurm")


def test_a_launcher_that_is_not_mpis(tmp_path: Path) -> None:
    starts_two = tmp_path / "launch"
    starts_two.write_text('#!/bin/bash\nshift 2\n"$@" & "$@"\nwait\n')
    starts_two.chmod(0o755)
    status, lines = _check(tmp_path, f"launcher: {starts_two}\n")
    assert status == 2
    assert f"wrong  2 ranks were started ({starts_two} -n 2), and MPI sees 1" in lines


def test_a_launcher_that_is_not_there(tmp_path: Path) -> None:
    status, lines = _check(tmp_path, "launcher: aprun\n")
    assert status == 2
    assert "wrong  no ranks were started: launcher: there is no aprun; name a program that exists" in lines


def test_a_setup_that_fails(tmp_path: Path) -> None:
    status, lines = _check(tmp_path, "setup: |\n  ls /no/such/folder\n")
    assert status == 2
    assert lines[0] == "wrong  the probe ended without an answer (exit status 2); it printed"
    assert lines[-2].endswith("at: ls /no/such/folder")


def test_cores_and_gpus_that_are_not_there(tmp_path: Path) -> None:
    status, lines = _check(tmp_path, "cores: 4096\ngpus: 64\ngpus_per_rank: 32\n", CUDA_VISIBLE_DEVICES="")
    assert status == 2
    told = [line for line in lines if line.startswith("wrong")]
    assert told[0].endswith(", and the site says 4096")
    assert told[1].startswith("wrong  torch ")
