"""A sweep of runs under a clock: as many ranks as there are silos and a server, judged by their results."""

import os
import signal
from pathlib import Path

import pytest

from fedhpc.store import open_run
from tests.workflow.experiments import digits, fedhpc, kill, parent, processes_of, results, started, wait_until, write
from workflow.sites import SiloSite, Site

CLOCK = {
    "clock": "wall",
    "silence": 3,
    "task": {
        "kind": "classification",
        "data": {"source": "digits", "held_out": 0.2},
        "partition": {"kind": "iid", "clients": 3},
        "model": {"name": "mlp", "hidden": [16]},
    },
    "scenarios": {"here": {"slowdown": [1, 1, 2]}},
}


def experiment(folder: Path, **changes: object) -> Path:
    content = digits(40, algorithms={"fedasync": {"scheduler": "asynchronous", "concurrency": 3, "mixing": 0.5}})
    return write(folder / "silos.yaml", {**content, **CLOCK, **changes})


def test_plan_says_what_a_run_takes_and_plays_nothing(tmp_path: Path) -> None:
    site = write(tmp_path / "site.yaml", {"cores": 2, "ranks_per_run": 1})
    planned = fedhpc("plan", experiment(tmp_path), "--site", site)
    assert planned.returncode == 0, planned.stderr
    assert "silos: 1 algorithm x 1 scenario x 1 trial = 1 run\n" in planned.stdout
    assert "clock: wall. A run takes 4 ranks, rank 0 and one for each of 3 clients, 1 at a time." in planned.stdout
    assert "There is no schedule to play" in planned.stdout
    assert "warning: a run's 4 ranks share 2 cores" in planned.stdout
    assert "virtual hours" not in planned.stdout


def test_plan_refuses_what_a_clock_cannot(tmp_path: Path) -> None:
    file = experiment(
        tmp_path,
        algorithms={"slow": {"scheduler": "synchronous", "cohort": 3, "client": {"time_limit": {"seconds": 1}}}},
        scenarios={"here": {"slowdown": [1, 2]}},
    )
    planned = fedhpc("plan", file)
    assert planned.returncode == 2
    assert "algorithms.slow.client.time_limit: counts virtual seconds" in planned.stderr
    assert "scenarios.here.slowdown: 2 factors for 3 clients" in planned.stderr


def test_a_sweep_takes_a_rank_for_each_silo_and_one_more(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    swept = fedhpc("sweep", experiment(tmp_path), "--output", folder)
    assert swept.returncode == 0, swept.stdout + swept.stderr
    assert "4 ranks each" in swept.stdout
    (result,) = results(folder).values()
    assert open_run(result).attrs["ranks"] == 4
    assert "silos lost" not in swept.stdout
    again = fedhpc("sweep", experiment(tmp_path), "--output", folder)
    assert "1 runs, 1 of them finished before" in again.stdout


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_a_run_that_lost_a_silo_is_done_and_says_so(tmp_path: Path, blow: signal.Signals) -> None:
    folder, log = tmp_path / "results", tmp_path / "log"
    site = write(tmp_path / "hasty.yaml", {"checkpoint_seconds": 0.3, "retries": 0})
    file = experiment(tmp_path, budget={"virtual_seconds": 10}, evaluation={"every": 100})
    try:
        with started("sweep", file, "--site", site, "--output", folder, log=log) as driver:
            wait_until(lambda: list(folder.glob("*/*/*.checkpoint")) or driver.poll() is not None)
            launcher = processes_of(folder, "mpiexec", "-m workflow run")[0]
            ranks = [one for one in processes_of(folder, "-m workflow run") if one != launcher]
            silos = [one for one in ranks if parent(one) in ranks]  # a silo's parent is its guard
            assert len(silos) == 3
            os.kill(silos[0], blow)
            assert driver.wait(120) == 0, log.read_text()
        printed = log.read_text()
        assert "silos lost:" in printed
        assert "fedasync/here/trial-0" in printed
        assert "was silent for 3 s and is given up" in (folder / "logs/fedasync/here/trial-0.log").read_text()
        lines = fedhpc("status", folder).stdout
        assert "1 runs: 1 finished" in lines
        assert "  lost     fedasync/here/trial-0  " in lines
        assert not processes_of(folder)
    finally:
        for process in processes_of(folder):
            kill(process)


def test_hydra_is_told_to_spare_the_others() -> None:
    site = SiloSite.of(Site.model_validate({"ranks_per_run": 2, "cores": 2}), 7)
    assert site.launch()[1:] == ["-disable-auto-cleanup", "-n", "8"]
    assert site.runs_at_a_time == 1
    own = Site.model_validate({"launcher": "env srun --no-kill --kill-on-bad-exit=0", "cores": 64})
    assert SiloSite.of(own, 7).launch()[1:] == ["srun", "--no-kill", "--kill-on-bad-exit=0", "-n", "8"]
    assert SiloSite.of(own, 7).runs_at_a_time == 8
