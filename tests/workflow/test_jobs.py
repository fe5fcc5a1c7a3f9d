"""The jobs that a person submits: what they say where something is missing, and that they find their way."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.workflow.experiments import SYNCHRONOUS, results, schedules_only, write
from workflow.sites import FOLDER, load_site

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
    path.parent.mkdir(parents=True, exist_ok=True)
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
        ["bash", spooled],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environment, "SLURM_SUBMIT_DIR": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr == "The repository of fedhpc is not here: submit from it, or name it in FEDHPC_HOME.\n"


def _bash(words: str, *arguments: object, **variables: object) -> subprocess.CompletedProcess[str]:
    """``words`` with the arguments as $1, $2 and so on, behind the functions that read a site."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FEDHPC_", "SLURM"))}
    return subprocess.run(
        ["bash", "-c", f'source "{ROOT}/jobs/site_setup.sh"; {words}', "test", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**kept, **{name: str(value) for name, value in variables.items()}},
    )


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_bash_and_python_read_the_same_site(name: str) -> None:
    site, file = load_site(name), FOLDER / f"{name}.yaml"
    assert _bash('fedhpc_site_text "$1"', file).stdout == site.setup
    node_local = site.slurm.node_local if site.slurm else None
    assert _bash('fedhpc_node_local "$1"', file).stdout.strip() == (node_local or "")
    assert name in ("local", "slurm") or "By its documentation, not tried." in file.read_text()


_LINES = st.lists(st.text("ab $#|:'\"", max_size=6), max_size=6)


@given(_LINES, st.integers(1, 4), st.sampled_from(["", "cores: 2", "# a comment", "slurm:\n  nodes: 1"]))
def test_bash_reads_a_setup_as_yaml_does(lines: list[str], width: int, after: str) -> None:
    # The first line says how far the block is indented.
    block = ["x", *(line.rstrip() for line in lines)]
    text = "\n".join(
        ["ranks_per_run: 2", "setup: |", *(" " * width + line if line else "" for line in block), after, ""]
    )
    read = _bash('fedhpc_site_text <(printf %s "$1")', text)
    assert read.stdout == yaml.safe_load(text)["setup"]


@pytest.mark.parametrize("setup", ["module load x", '"module load x"', ">\n  module load x", "|2\n   module load x"])
def test_a_setup_in_another_form_is_refused(tmp_path: Path, setup: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"setup: {setup}\n")
    done = _bash('fedhpc_set_up / "$1"; echo reached', file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'setup: write it as a block of lines that begins with "setup: |"\n'


def test_a_setup_that_fails_ends_the_job_with_the_command(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("setup: |\n  false || true\n  ls /no/such/folder\n  true\n")
    done = _bash('fedhpc_set_up / "$1"; echo reached', file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("at: ls /no/such/folder")


@pytest.mark.parametrize("ends", ["exit 0", "exit 3", "[[ -n ${NOTHING:-} ]] || exit"])
def test_a_setup_that_exits_is_no_success(tmp_path: Path, ends: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"setup: |\n  {ends}\n  true\n")
    done = _bash(f'fedhpc_set_up "{ROOT}" "$1"; echo went on', file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"setup of the site '{file}' ended the job on ")


def test_after_a_setup_the_job_may_exit_as_it_likes(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("setup: |\n  true\n")
    done = _bash(f'fedhpc_set_up "{ROOT}" "$1"; exit 7', file)
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize(
    ("words", "site"),
    [("", "local"), ("a --site x b", "x"), ("--site=./y z", "./y"), ("--chain 2 a --site x", "x"), ("--site", "")],
)
def test_the_site_of_a_command_line(words: str, site: str) -> None:
    assert _bash(f"fedhpc_site_of {words}").stdout == f"{site}\n"
    assert _bash("fedhpc_site_of a", FEDHPC_SITE="mine").stdout == "mine\n"


def test_a_site_sets_up_a_sweep_before_its_python_is_found(tmp_path: Path) -> None:
    site, experiment = tmp_path / "my site.yaml", tmp_path / "small.yaml"
    write(experiment, schedules_only(trials=1, algorithms={"fedavg": SYNCHRONOUS}))
    site.write_text(f"setup: |\n  export FEDHPC_ENVIRONMENT=none\n  export FEDHPC_PYTHON='{sys.executable}'\n")
    # The experiment may stand behind the options.
    arguments = ["--output", tmp_path / "my results", "--site", site, experiment]
    done = _bash('exec bash "$@"', ROOT / "jobs" / "sweep.sh", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(results(tmp_path / "my results")) == ["fedavg/slow/trial-0.h5"]


def test_a_chain_needs_a_queue(tmp_path: Path) -> None:
    experiment = write(tmp_path / "small.yaml", schedules_only())
    done = _bash(
        'exec bash "$@"',
        ROOT / "jobs" / "sweep.sh",
        *("--chain", 2, experiment, "--site", "local"),
        FEDHPC_ENVIRONMENT="none",
        FEDHPC_PYTHON=sys.executable,
    )
    assert done.returncode == 2
    assert "slurm: missing, so that there is no queue to submit to" in done.stderr


def _folder(home: Path, **variables: object) -> str:
    return _bash('source "$1/jobs/environment_folder.sh"; fedhpc_environment_folder "$1"', home, **variables).stdout


def test_each_kind_of_node_has_an_environment_of_its_own(copy: Path, tmp_path: Path) -> None:
    for machine, name in (("x86_64", ".venv"), ("aarch64", ".venv-aarch64")):
        _script(tmp_path / machine / "uname", f"echo {machine}")
        path = f"{tmp_path / machine}:{os.environ['PATH']}"
        assert _folder(copy, PATH=path) == f"{copy / name}\n"
        assert _folder(copy, PATH=path, FEDHPC_VENV="other") == f"{copy / 'other'}\n"
        assert _folder(copy, PATH=path, FEDHPC_VENV="/scratch/me/venv") == "/scratch/me/venv\n"


def test_an_environment_is_not_built_on_itself(copy: Path) -> None:
    # As where it is active: its Python comes first on PATH.
    _script(copy / ".venv" / "bin" / "python3", "echo itself >&2; exit 1")
    path = f"{copy / '.venv' / 'bin'}:{os.environ['PATH']}"
    done = _environment(copy, FEDHPC_ENVIRONMENT="sites", PATH=path)
    assert "itself" not in done.stderr


def test_within_a_job_pip_gives_up_soon_and_the_login_node_is_named(copy: Path, tmp_path: Path) -> None:
    done = _environment(
        copy,
        SLURM_JOB_ID=1,
        FEDHPC_PYTHON=sys.executable,
        FEDHPC_VENV=tmp_path / "venv",
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_CONFIG_FILE=os.devnull,
    )
    assert done.returncode == 1
    assert "'bash jobs/prepare.sh' on the login node makes the environment." in done.stderr.splitlines()[-1]
    # One further try for each of pip's requests, and no five.
    assert "Retry(total=0" in (tmp_path / "venv" / "pip.log").read_text()
    assert "Retry(total=4" not in (tmp_path / "venv" / "pip.log").read_text()


def test_what_to_prepare_and_what_to_type_next(tmp_path: Path) -> None:
    experiment, site = write(tmp_path / "small.yaml", schedules_only()), tmp_path / "queue.yaml"
    site.write_text("slurm:\n  nodes: 2\n")
    known = {"FEDHPC_ENVIRONMENT": "none", "FEDHPC_PYTHON": sys.executable}
    words, job = 'exec bash "$@"', ROOT / "jobs" / "prepare.sh"
    done = _bash(words, job, "--site", site, experiment, **known)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("small: 2 algorithms x 1 scenario x 2 trials = 4 runs")
    assert done.stdout.splitlines()[-2:] == [
        f"Next:  fedhpc site check --site {site}",
        f"then:  fedhpc submit {experiment} --site {site}",
    ]
    assert _bash(words, job, experiment, **known).stdout.splitlines()[-1] == (
        f"Next:  bash jobs/sweep.sh {experiment} --site local"
    )
    refused = _bash(words, job, "--sites", **known)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert _bash(words, job, tmp_path / "none.yaml", **known).returncode == 2


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment that is small enough to be packed by a test."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    return tmp_path / "venv"


def _on_node(site: object, *arguments: object, **variables: object) -> subprocess.CompletedProcess[str]:
    return _bash('exec bash "$@"', ROOT / "jobs" / "on_node.sh", site, *arguments, **variables)


PREFIX = ("-c", "import sys; print(sys.prefix)")


def test_a_node_takes_the_sweeps_python_behind_the_sites_setup(tmp_path: Path, venv: Path) -> None:
    site = tmp_path / "mine.yaml"
    site.write_text("setup: |\n  export WHERE=there\n")
    done = _on_node(site, venv / "bin" / "python", "-c", "import os, sys; print(sys.prefix, os.environ['WHERE'])")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{venv} there\n", "")


def test_a_node_without_an_environment_names_the_login_node(tmp_path: Path) -> None:
    done = _on_node("local", *PREFIX, FEDHPC_VENV=tmp_path / "none")
    assert done.returncode == 2
    assert done.stderr.endswith("on the login node, 'bash jobs/prepare.sh --site local' makes it.\n")


def test_a_node_copies_the_environment_once(tmp_path: Path, venv: Path) -> None:
    site = tmp_path / "mine.yaml"
    site.write_text("slurm:\n  node_local: $DISK/fedhpc   # each node's own\n")
    disk = tmp_path / "disk"
    shared = _on_node(site, venv / "bin" / "python", *PREFIX, DISK=disk)
    assert (shared.returncode, shared.stdout) == (0, f"{venv}\n")
    assert "there is no" in shared.stderr
    prepared = _bash(
        'exec bash "$@"',
        ROOT / "jobs" / "prepare.sh",
        *("--site", site),
        FEDHPC_ENVIRONMENT="none",
        FEDHPC_PYTHON=_knows_all(venv),
    )
    assert (prepared.returncode, prepared.stdout.splitlines()[0].split(" (")[0]) == (
        0,
        f"Packed {venv}.tar for the nodes' own disks",
    )
    # Several at once: one copies, and all use that copy.
    words = 'for i in 1 2 3 4; do bash "$@" & done; wait'
    done = _bash(words, ROOT / "jobs" / "on_node.sh", site, venv / "bin" / "python", *PREFIX, DISK=disk)
    (copy,) = (disk / "fedhpc").glob("fedhpc-*[!k]")
    # Four write at once, and their line ends come when they come.
    assert (done.stdout.replace("\n", ""), done.stderr) == (str(copy) * 4, "")


def _knows_all(venv: Path) -> Path:
    """That environment's Python, with what the tests' own can import."""
    found = next((venv / "lib").glob("python3*")) / "site-packages" / "tests.pth"
    found.write_text("\n".join([str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]))
    return venv / "bin" / "python"


@pytest.mark.parametrize("node_local", ["/dev/null/x", "$NO_SUCH_VARIABLE/x", "relative"])
def test_a_node_whose_copy_fails_uses_what_is_shared(tmp_path: Path, venv: Path, node_local: str) -> None:
    site = tmp_path / "mine.yaml"
    site.write_text(f"slurm: \n  node_local: {node_local}\n")
    subprocess.run(["tar", "-cf", f"{venv}.tar", "-C", venv, "."], check=True)
    done = _on_node(site, venv / "bin" / "python", *PREFIX)
    assert (done.returncode, done.stdout) == (0, f"{venv}\n")
    assert "uses the shared" in done.stderr


def test_an_environment_that_changed_since_it_was_packed_is_not_copied(tmp_path: Path, venv: Path) -> None:
    site = tmp_path / "mine.yaml"
    site.write_text(f"slurm:\n  node_local: {tmp_path / 'disk'}\n")
    subprocess.run(["tar", "-cf", f"{venv}.tar", "-C", venv, "."], check=True)
    os.utime(f"{venv}.tar", (0, 0))
    (venv / "installed-bare").touch()
    done = _on_node(site, venv / "bin" / "python", *PREFIX)
    assert (done.returncode, done.stdout) == (0, f"{venv}\n")
    assert "is older" in done.stderr


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
