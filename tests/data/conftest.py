import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedhpc.data.federated import FederatedData, open_prepared
from fedhpc.data.preparation import prepare
from fedhpc.task import Classification


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data files; skips where it is absent."""
    shared = Path(os.environ.get("FEDHPC_SHARED", Path(__file__).parents[3] / "shared"))
    if not (shared / "data").is_dir():
        pytest.skip(f"the real data files are not at {shared / 'data'}; set FEDHPC_SHARED")
    return shared / "data"


@pytest.fixture
def task() -> Callable[..., Classification]:
    """A classification task from its data block, partition and stragglers as in YAML."""

    def build(
        data: dict[str, Any], partition: dict[str, Any] | None = None, stragglers: dict[str, Any] | None = None
    ) -> Classification:
        block = {"kind": "classification", "data": data, "partition": partition or {"kind": "by_column"}}
        block["model"] = {"name": "logistic"}
        return Classification.model_validate(block | ({"stragglers": stragglers} if stragglers else {}))

    return build


@pytest.fixture
def opened(tmp_path: Path, task: Callable[..., Classification]) -> Callable[..., FederatedData]:
    """The prepared data of a task block, opened; files are looked for in ``tmp_path``."""

    def build(*blocks: Any, seed: int = 0) -> FederatedData:
        return open_prepared(prepare(task(*blocks), seed, tmp_path, tmp_path / "prepared"))

    return build
