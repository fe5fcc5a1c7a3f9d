"""One real Slurm for all tests of this folder, as after its start at the beginning of each.

``FEDHPC_TEST_SLURM=required`` fails the tests where there can be none; else they are skipped.
"""

import os
from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Cluster, missing


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """Four nodes, ``n1`` to ``n4``, of two CPUs and two GPUs each."""
    if why := missing():
        if os.environ.get("FEDHPC_TEST_SLURM") == "required":
            pytest.fail(f"FEDHPC_TEST_SLURM=required, but {why}.")
        pytest.skip(f"{why}.")
    with Cluster(nodes=4, cpus=2, gpus=2) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _as_after_its_start(slurm: Cluster) -> Iterator[None]:
    yield
    slurm.reset()
