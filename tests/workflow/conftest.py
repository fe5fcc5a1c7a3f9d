"""One run of the handwritten digits, and what it gives where nothing happens to it."""

from pathlib import Path

import pytest

from tests.workflow.experiments import BUFFERED, digits, fedhpc, write


@pytest.fixture(scope="session")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment of ``fedbuff/slow/trial-0``."""
    return write(tmp_path_factory.mktemp("experiment") / "small.yaml", digits(2000, algorithms={"fedbuff": BUFFERED}))


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, one_run: Path) -> Path:
    """Its results folder."""
    folder = tmp_path_factory.mktemp("undisturbed")
    asked = ["--algorithm", "fedbuff", "--scenario", "slow", "--trial", 0, "--output", folder]
    assert fedhpc("run", one_run, *asked).returncode == 0
    return folder
