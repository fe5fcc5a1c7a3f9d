"""The jobs that a person submits: what they say where something is missing, and that they find their way."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.experiments import SYNCHRONOUS, results, schedules_only, write

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout of its own, so that no test touches this one's .venv."""
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT / "jobs", copy / "jobs")
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, copy)
    return copy


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def _environment(checkout: Path, extras: str = "", **variables: object) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FEDHPC_", "SLURM_"))}
    words = f'source "{checkout}/jobs/environment.sh" "{extras}" && echo "$fedhpc_python"'
    return subprocess.run(
        ["bash", "-c", words],
        capture_output=True,
        text=True,
        env={**kept, **{name: str(value) for name, value in variables.items()}},
    )


def test_no_new_enough_python_is_one_sentence(copy: Path, tmp_path: Path) -> None:
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        _script(tmp_path / "bin" / name, "exit 1")
    done = _environment(copy, PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "fedhpc needs Python 3.11 or newer and found none; install one, or name it in FEDHPC_PYTHON."
    ]


def test_an_old_python_that_was_named_is_told(copy: Path, tmp_path: Path) -> None:
    old = _script(tmp_path / "bin" / "python3.9", "exit 1")
    done = _environment(copy, FEDHPC_PYTHON=old)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "is older than Python 3.11" in done.stderr


def test_where_venv_is_missing_its_package_is_named(copy: Path, tmp_path: Path) -> None:
    lacking = f"""[[ "$*" == *ensurepip* ]] && exit 1; exec "{sys.executable}" "$@" """
    python = _script(tmp_path / "bin" / "python3", lacking)
    done = _environment(copy, FEDHPC_PYTHON=python)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"install its package with 'apt-get install python{version}-venv'.")
    # Nothing half made is left to be taken for an environment.
    assert not (copy / ".venv").exists()
    assert not (copy / ".venv.lock").exists()


def test_an_environment_can_be_taken_as_it_is() -> None:
    done = _environment(ROOT, FEDHPC_ENVIRONMENT="none", FEDHPC_PYTHON=sys.executable)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{sys.executable}\n", "")


def test_what_an_environment_lacks_is_named(copy: Path, tmp_path: Path) -> None:
    bare = _script(tmp_path / "bin" / "python3", f'exec "{sys.executable}" -S "$@"')
    done = _environment(copy, FEDHPC_ENVIRONMENT="none", FEDHPC_PYTHON=bare)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "cannot import" in done.stderr
    assert "torch" in done.stderr


def test_an_unknown_kind_of_environment_is_refused(copy: Path) -> None:
    done = _environment(copy, FEDHPC_ENVIRONMENT="sites", FEDHPC_PYTHON=sys.executable)
    assert (done.returncode, done.stderr) == (
        1,
        "FEDHPC_ENVIRONMENT: 'sites' is unknown; leave it unset, or say site or none.\n",
    )


def test_slurms_copy_of_the_job_finds_the_repository(tmp_path: Path) -> None:
    spooled = shutil.copy(ROOT / "jobs" / "sweep.sh", tmp_path / "slurm_script")
    experiment = write(tmp_path / "small.yaml", schedules_only(trials=1, algorithms={"fedavg": SYNCHRONOUS}))
    done = subprocess.run(
        ["bash", spooled, experiment, "--output", tmp_path / "results"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "SLURM_SUBMIT_DIR": str(ROOT),
            "FEDHPC_ENVIRONMENT": "none",
            "FEDHPC_PYTHON": sys.executable,
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(results(tmp_path / "results")) == ["fedavg/slow/trial-0.h5"]


def test_a_job_that_finds_no_repository_says_so(tmp_path: Path) -> None:
    spooled = shutil.copy(ROOT / "jobs" / "sweep.sh", tmp_path / "slurm_script")
    environment = {name: value for name, value in os.environ.items() if name != "FEDHPC_HOME"}
    done = subprocess.run(
        ["bash", spooled], capture_output=True, text=True, env={**environment, "SLURM_SUBMIT_DIR": str(tmp_path)}
    )
    assert done.returncode == 2
    assert done.stderr == "The repository of fedhpc is not here: submit from it, or name it in FEDHPC_HOME.\n"


def test_constraints_pin_everything_that_setup_names() -> None:
    pinned = {
        line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    setup = (ROOT / "setup.cfg").read_text()
    named = {"parsl", "mpi4py", "torch", "h5py", "h5netcdf", "numpy", "xarray", "pyyaml", "pydantic", "typer", "rich"}
    named |= {"matplotlib", "scikit-learn", "kmedoids", "mpich", "pytest", "hypothesis", "ruff", "mypy"}
    assert all(f"\n    {name}" in setup for name in named)
    assert named <= pinned
    assert "torch==2.13.0\n" in (ROOT / "constraints.txt").read_text()
