"""What a person is told, and what is left in the queue, when a sweep's nodes do not come or go away."""

import signal
import time
from pathlib import Path

from tests.slurm.cluster import Cluster
from tests.slurm.sweeps import Sweep, site
from tests.workflow.experiments import schedules_only, wait_until, write
from workflow.slurm import pilot_name

ENDLESS = schedules_only(budget={"client_updates": 200_000_000}, evaluation={"every": 10_000_000})


def _sweep(slurm: Cluster, tmp_path: Path, way: str, **settings: object) -> Sweep:
    experiment = write(tmp_path / "endless.yaml", ENDLESS)
    return Sweep(slurm, experiment, site(tmp_path / "site.yaml", way, **settings), tmp_path / "results")


def test_a_sweep_whose_pilots_wait_stops_at_once_and_takes_them_back(slurm: Cluster, tmp_path: Path) -> None:
    sweep = _sweep(slurm, tmp_path, "blocks", max_blocks=2)
    for node in slurm.nodes:
        slurm.drain(node)
    with sweep.driver() as driver:
        wait_until(lambda: slurm.jobs(pilot_name(sweep.folder), ["PENDING"]), 60, sweep.told)
        driver.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        assert driver.wait(60) == 128 + signal.SIGTERM, sweep.told()
    # Not the patience that runs under way are given (25 s).
    assert time.monotonic() - asked < 20
    assert slurm.jobs(pilot_name(sweep.folder)) == []


def test_a_queue_that_takes_no_pilot_is_asked_seldom_and_quoted(slurm: Cluster, tmp_path: Path) -> None:
    sweep = _sweep(slurm, tmp_path, "blocks", poll_seconds=3, options=["--constraint=no_such_feature"])
    with sweep.driver() as driver:
        assert driver.wait(120) == 1, sweep.told()
    assert "3 jobs in a row ended before their workers were there" in sweep.told()
    assert "Invalid feature specification" in sweep.told()
    assert len(list((sweep.folder / "logs" / "slurm").glob("*block-[0-9]*[0-9]"))) <= 5


def test_a_lost_node_is_told(slurm: Cluster, tmp_path: Path) -> None:
    sweep = _sweep(slurm, tmp_path, "allocation")
    job = sweep.submit(nodes=2)
    nodes = wait_until(lambda: len(found := sweep.nodes_with_runs()) == 2 and found, 90, sweep.told)
    first = slurm.nodes_of(job)[0]
    (other,) = (node for node in nodes if node != first)
    slurm.kill_node(other)
    slurm.declare_down(other)
    wait_until(lambda: " were lost; it is tried again, from its last checkpoint" in sweep.told(), 90, sweep.told)
    slurm.cancel(job)
