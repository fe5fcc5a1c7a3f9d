"""Sites: which file is meant, what it may say, and how many runs that makes."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from parsl.executors import HighThroughputExecutor

from fedhpc.mistakes import ExperimentError
from workflow.parsl_config import parsl_config
from workflow.placement import Placement
from workflow.sites import SiloSite, Site, Slurm, load_site


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
    assert load_site() == load_site("local")
    # Its file says what goes without saying.
    assert load_site().model_dump() == Site.model_validate({}).model_dump()


def test_the_environment_names_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDHPC_SITE", str(_site(tmp_path / "mine.yaml", "ranks_per_run: 3\n")))
    assert load_site().ranks_per_run == 3
    assert load_site("local").ranks_per_run == 2


def test_an_unknown_site_is_told_with_the_nearest() -> None:
    with pytest.raises(ExperimentError) as refused:
        load_site("lokal")
    assert refused.value.mistakes == [
        "'lokal' is unknown; did you mean 'local'?; known: "
        "delta, deltaai, frontier, local, perlmutter, slurm, or the path of a file"
    ]


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


SLURM = {"cores": 8, "gpus": 4, "slurm": {"nodes": 2}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("2:00:30", 7230),
        ("1-0", 86400),
        ("1-2:30", 95400),
        ("3-01:02:03", 262923),
    ],
)
def test_times_are_read_as_slurm_reads_them(text: str, seconds: int) -> None:
    assert Slurm.model_validate({"time": text}).seconds == seconds


@pytest.mark.parametrize(
    ("site", "in_a_block", "at_a_time"),
    [
        # 8 cores hold four runs of two ranks; so do 4 GPUs.
        ({**SLURM, "ranks_per_run": 2}, 8, 8),
        ({**SLURM, "ranks_per_run": 2, "cores_per_rank": 2}, 4, 4),
        ({**SLURM, "ranks_per_run": 2, "gpus_per_rank": 1}, 4, 4),
        ({**SLURM, "ranks_per_run": 1, "runs_per_node": 3}, 6, 6),
        ({**SLURM, "ranks_per_run": 2, "slurm": {"nodes": 3, "way": "blocks", "max_blocks": 5}}, 12, 60),
        # Two nodes a run.
        (
            {**SLURM, "ranks_per_run": 4, "nodes_per_run": 2, "launcher": "srun", "slurm": {"nodes": 6}},
            3,
            3,
        ),
    ],
)
def test_how_many_runs_the_nodes_hold(
    monkeypatch: pytest.MonkeyPatch, site: dict[str, Any], in_a_block: int, at_a_time: int
) -> None:
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    found = Site.model_validate(site)
    assert (found.runs_in_a_block, found.runs_at_a_time) == (in_a_block, at_a_time)


def test_an_allocation_is_as_large_as_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "7")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "6")
    assert Site.model_validate({"slurm": {}}).runs_at_a_time == 21
    # Of blocks it says nothing: the sweep lives in a job of its own.
    blocks = {"cores": 4, "slurm": {"way": "blocks"}}
    assert Site.model_validate(blocks).runs_at_a_time == 2
    assert "this job holds 7 nodes" in Site.model_validate({}).warning


@pytest.mark.parametrize(
    ("site", "told"),
    [
        ({"gpus_per_rank": 1}, "gpus_per_rank: a run takes 2 GPUs of a node, and gpus says 0"),
        ({"cores": 4, "runs_per_node": 3}, "runs_per_node: 3 runs of 2 ranks take 6 cores of a node, and cores says 4"),
        (
            {"cores": 64, "gpus": 4, "gpus_per_rank": 1, "runs_per_node": 3},
            "runs_per_node: 3 runs of 2 ranks take 6 gpus of a node, and gpus says 4",
        ),
        ({"nodes_per_run": 2, "slurm": {"nodes": 2}}, "nodes_per_run: ranks on several nodes are started by Slurm"),
        ({"nodes_per_run": 2, "launcher": "srun"}, "add a slurm block"),
        (
            {"nodes_per_run": 2, "launcher": "srun", "ranks_per_run": 3, "slurm": {"nodes": 2}},
            "ranks_per_run: 3 ranks do not divide among 2 nodes_per_run",
        ),
        (
            {"nodes_per_run": 2, "launcher": "srun", "slurm": {"nodes": 3}},
            "slurm.nodes: 3 nodes hold no whole number of runs on 2 nodes each",
        ),
        (
            {"nodes_per_run": 2, "launcher": "srun", "runs_per_node": 1, "slurm": {"nodes": 2}},
            "runs_per_node: a run of several nodes_per_run has them alone",
        ),
        ({"slurm": {"way": "blocks"}}, "cores: missing"),
        (
            {"slurm": {"time": "soon"}},
            "slurm.time: 'soon' is no time of Slurm's; write 04:00:00 or 2-12:00:00, say, in quotes",
        ),
        ({"slurm": {"time": 14400}}, "slurm.time: 14400 is no time of Slurm's"),
        ({"slurm": {"way": "block"}}, "slurm.way: 'block' is not allowed"),
        ({"slurm": {"partitions": "x"}}, "slurm.partitions: unknown key; did you mean 'partition'?"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, site: dict[str, Any], told: str) -> None:
    path = _site(tmp_path / "mine.yaml", yaml.safe_dump(site))
    with pytest.raises(ExperimentError) as refused:
        load_site(str(path))
    assert told in "\n".join(refused.value.mistakes)


def test_sbatch_is_told_what_the_site_says() -> None:
    slurm = Slurm.model_validate(
        {
            "account": "m1",
            "qos": "regular",
            "time": "30",
            "nodes": 4,
            "options": ["--gpus-per-node=4"],
            "driver_options": ["--ntasks=1"],
        }
    )
    assert slurm.job_options == ["--account=m1", "--qos=regular", "--time=30", "--nodes=4", "--gpus-per-node=4"]
    assert slurm.queue_options == ["--account=m1", "--qos=regular", "--ntasks=1"]


def test_an_allocation_is_refused_outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ExperimentError, match=r"slurm\.way: allocation, and this is no Slurm job; submit one with"):
        Site.model_validate({"slurm": {}}).refuse_elsewhere()
    Site.model_validate({"cores": 2, "slurm": {"way": "blocks"}}).refuse_elsewhere()
    Site.model_validate({}).refuse_elsewhere()
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    Site.model_validate({"slurm": {}}).refuse_elsewhere()
    with pytest.raises(ExperimentError, match="a run takes 2 nodes, the job holds 1"):
        Site.model_validate({"nodes_per_run": 2, "launcher": "srun", "slurm": {"nodes": 2}}).refuse_elsewhere()


def test_srun_starts_a_run_where_it_is_placed(tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.write_text("")
    srun.chmod(0o755)
    site = Site.model_validate({"launcher": f"{srun} --mpi=pmi2", "slurm": {}})
    words = site.launch(Placement(nodes=("n3",)))
    assert words[:2] == [str(srun), "--mpi=pmi2"]
    assert {"--nodelist=n3", "--nodes=1", "--ntasks-per-node=2", "--kill-on-bad-exit=1"} <= {*words}
    assert words[-2:] == ["-n", "2"]
    assert "--kill-on-bad-exit=0" in SiloSite.of(site, 3).launch(Placement(nodes=("n3",)))
    # MPICH's own launcher is kept from asking Slurm.
    assert Site().launch(Placement(nodes=("n3",)))[1:] == ["-launcher", "fork", "-hosts", "localhost", "-n", "2"]


@pytest.mark.parametrize(
    ("slurm", "told"),
    [
        ({"time": "1", "signal_seconds": 60}, "slurm.signal_seconds: a job of 60 s (time) would be asked to end 60 s"),
        (
            {"options": ["--comment=a\nb"]},
            "slurm.options.0: '--comment=a\\nb' has a character in it that does not print",
        ),
        ({"account": "a\0b"}, "slurm.account: 'a\\x00b' has a character"),
        ({"node_local": "tmp/me"}, "slurm.node_local: 'tmp/me' is another folder wherever a job begins"),
        ({"options": "--gpus-per-node=4"}, "slurm.options: '--gpus-per-node=4' is not allowed; write a list: ['--gpus"),
    ],
)
def test_what_slurm_would_tell_too_late_is_told(tmp_path: Path, slurm: dict[str, Any], told: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        load_site(str(_site(tmp_path / "mine.yaml", yaml.safe_dump({"slurm": slurm}))))
    assert told in "\n".join(refused.value.mistakes)


def test_a_run_that_no_node_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="the 2 ranks of a run take 4 cores of a node, and cores says 2"):
        Site.model_validate({"cores": 2, "cores_per_rank": 2, "slurm": {}})
    # Two nodes hold what one does not; here more ranks than cores take turns, and silos are warned of it.
    Site.model_validate({"cores": 1, "nodes_per_run": 2, "launcher": "srun", "slurm": {"nodes": 2}})
    Site.model_validate({"cores": 1, "ranks_per_run": 4})
    assert "share 2 cores" in SiloSite.of(Site.model_validate({"cores": 2, "slurm": {}}), 5).warning


def test_no_variable_has_such_a_name(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="'A=B' is no name of a variable"):
        load_site(str(_site(tmp_path / "mine.yaml", "environment: {A=B: x}\n")))


def test_a_job_too_short_to_work_in_is_a_warning() -> None:
    short = {"slurm": {"time": "2", "signal_seconds": 60}}
    assert "may be asked to end before it has begun to work" in Site.model_validate(short).warning
    assert Site.model_validate({"slurm": {"time": "5"}}).warning == ""


def test_more_silos_than_a_site_holds_are_told() -> None:
    site = Site.model_validate({"ranks_per_run": 2, "gpus_per_rank": 1, "gpus": 2})
    with pytest.raises(
        ExperimentError, match=r"a run takes 5 GPUs of a node, and gpus says 2.*a rank for each of 4 cl"
    ):
        SiloSite.of(site, 4)
