"""Sites: which file is meant, what it may say, and how many runs that makes."""

import os
import sys
from pathlib import Path

import pytest
from parsl.executors import HighThroughputExecutor

from fedhpc.mistakes import ExperimentError
from workflow.sites import Site, load_site, parsl_config


def _site(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(("cores", "ranks", "runs"), [(8, 2, 4), (7, 2, 3), (2, 5, 1), (1, 1, 1)])
def test_as_many_runs_as_the_cores_hold(cores: int, ranks: int, runs: int) -> None:
    site = Site.model_validate({"cores": cores, "ranks_per_run": ranks})
    assert site.runs_at_a_time == runs
    executor = parsl_config(site, Path("somewhere")).executors[0]
    assert isinstance(executor, HighThroughputExecutor)
    assert executor.max_workers_per_node == runs


def test_no_cores_named_means_those_this_process_may_use() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert Site.model_validate({"ranks_per_run": 1}).runs_at_a_time == 1
    finally:
        os.sched_setaffinity(0, before)
    assert Site.model_validate({"ranks_per_run": 1}).runs_at_a_time == len(before)


def test_the_local_site_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDHPC_SITE", raising=False)
    assert load_site() == load_site("local") == Site.model_validate({})


def test_the_environment_names_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDHPC_SITE", str(_site(tmp_path / "mine.yaml", "ranks_per_run: 3\n")))
    assert load_site().ranks_per_run == 3
    assert load_site("local").ranks_per_run == 2


def test_an_unknown_site_is_told_with_the_nearest() -> None:
    with pytest.raises(ExperimentError) as refused:
        load_site("lokal")
    assert refused.value.mistakes == ["'lokal' is unknown; did you mean 'local'?; known: local, or the path of a file"]


def test_every_mistake_at_once(tmp_path: Path) -> None:
    path = _site(tmp_path / "mine.yaml", "ranks_per_runs: 2\ncores: none\nretries: -1\n")
    with pytest.raises(ExperimentError) as refused:
        load_site(str(path))
    told = "\n".join(refused.value.mistakes)
    assert "ranks_per_runs: unknown key; did you mean 'ranks_per_run'?" in told
    assert "cores: 'none' is not allowed" in told
    assert "retries: -1 is not allowed" in told


def test_the_launcher_is_the_one_beside_this_python() -> None:
    beside = Path(sys.executable).with_name("mpiexec")
    assert Site.model_validate({"ranks_per_run": 2}).launch() == [str(beside), "-n", "2"]


def test_one_rank_needs_no_launcher() -> None:
    assert Site.model_validate({"ranks_per_run": 1, "launcher": "no-such-launcher"}).launch() == []


def test_a_launcher_that_is_not_there_is_named() -> None:
    with pytest.raises(ExperimentError, match="launcher: there is no no-such-launcher"):
        Site.model_validate({"launcher": "no-such-launcher --flag"}).launch()


def test_a_sites_launcher_keeps_its_options() -> None:
    assert Site.model_validate({"launcher": "env -u NOTHING"}).launch()[1:] == ["-u", "NOTHING", "-n", "2"]
