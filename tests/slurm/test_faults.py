"""What clusters do to a sweep, on a real Slurm: no run is lost, and the bytes are those of an undisturbed sweep.

One sweep lives through all faults of its way, each once its runs have come further. What is lost of a run's work came
after its last checkpoint; where Slurm or a person asks first, it is nothing.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.campaign import Campaign, table
from tests.slurm.cluster import Cluster
from tests.slurm.sweeps import BUFFER_SIZE, CHECKPOINT_SECONDS, Sweep, site
from tests.workflow.experiments import BUFFERED, digits, fedhpc, is_asked_to_end, numbers, results, wait_until, write

LONG, SHORT = 8000, 200
SLACK_SECONDS = 4.0
"""What a checkpoint may come late where ranks share cores with other tests."""


class Undisturbed:
    """Experiments of two runs, and the results of their sweeps without Slurm, one rank a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def experiment(self, client_updates: int, runs: int) -> Path:
        settings = digits(client_updates, algorithms={"fedbuff": {**BUFFERED, "buffer_size": BUFFER_SIZE}})
        return write(self._folder / f"{client_updates}-{runs}.yaml", {**settings, "trials": runs})

    def results(self, client_updates: int) -> Path:
        folder = self._folder / f"results-{client_updates}"
        if not folder.exists():
            local = write(self._folder / "local.yaml", {"ranks_per_run": 1})
            done = fedhpc("sweep", self.experiment(client_updates, 2), "--site", local, "--output", folder)
            assert done.returncode == 0, done.stdout + done.stderr
        return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def make(slurm: Cluster, tmp_path: Path, undisturbed: Undisturbed) -> Callable[..., Sweep]:
    """A sweep of such an experiment, in this way and with these settings of the site."""

    def made(way: str, client_updates: int, runs: int, **settings: Any) -> Sweep:
        experiment = undisturbed.experiment(client_updates, runs)
        return Sweep(slurm, experiment, site(tmp_path / "site.yaml", way, **settings), tmp_path / "results")

    return made


def test_an_allocation_loses_its_parts(slurm: Cluster, make: Callable[..., Sweep], undisturbed: Undisturbed) -> None:
    """One job all along, which Slurm requeues where its first node is lost."""
    sweep = make("allocation", LONG, runs=2, nodes=3)
    campaign = Campaign(sweep)
    with campaign.watched():
        job = sweep.submit(nodes=3)
        _node_of_an_allocation(campaign, job)
        _first_node(campaign, job)
        _requeue(campaign, job)
        state = slurm.wait_for_job(job, seconds=200)
    assert state == "COMPLETED", sweep.told() + slurm.about(job)
    _survived(campaign, LONG, 2, undisturbed)


def test_an_allocation_ends_and_is_submitted_again(
    slurm: Cluster, make: Callable[..., Sweep], undisturbed: Undisturbed
) -> None:
    sweep = make("allocation", LONG, runs=1, ranks=2)
    campaign = Campaign(sweep)
    with campaign.watched():
        _rank(campaign, (job := sweep.submit(nodes=1)))
        _time_limit(campaign, job)
        _scancel(campaign, sweep.submit(nodes=1))
        job = sweep.submit(nodes=1)
        _driver(campaign)
        assert slurm.wait_for_job(job) == "FAILED"
        campaign.corrupt_newest()
        state = slurm.wait_for_job(job := sweep.submit(nodes=1), seconds=200)
    assert state == "COMPLETED", sweep.told() + slurm.about(job)
    _survived(campaign, LONG, 1, undisturbed)


def test_pilot_jobs_are_lost_and_replaced(slurm: Cluster, make: Callable[..., Sweep], undisturbed: Undisturbed) -> None:
    sweep = make("blocks", LONG, runs=1, ranks=2)
    campaign = Campaign(sweep)
    with campaign.watched():
        with sweep.driver():
            _rank_of_a_pilot(campaign)
            _node_of_a_pilot(campaign)
            _pilot_cancelled(campaign)
            _time_limit_of_a_pilot(campaign)
            _driver(campaign)
        # What is left of its pilots is cancelled by the next.
        with sweep.driver() as driver:
            _asked(campaign)
            assert driver.wait(60) == 128 + signal.SIGTERM, sweep.told()
        assert not slurm.jobs()
        with sweep.driver() as driver:
            status = driver.wait(200)
    assert status == 0, sweep.told()
    _survived(campaign, LONG, 1, undisturbed)


def test_a_pilot_that_never_starts(slurm: Cluster, make: Callable[..., Sweep], undisturbed: Undisturbed) -> None:
    """One is held in the queue; the runs go on in the other."""
    sweep = make("blocks", SHORT, runs=2, max_blocks=2)
    for node in slurm.nodes[1:]:
        slurm.drain(node)
    with sweep.driver() as driver:
        first, second = wait_until(lambda: jobs if len(jobs := slurm.jobs()) == 2 else [], 60, sweep.told)
        assert slurm.wait_for_job(first, "RUNNING") == "RUNNING"
        slurm.hold(second)
        for node in slurm.nodes[1:]:
            slurm.undrain(node)
        assert driver.wait(120) == 0, sweep.told()
    assert slurm.wait_for_job(second) == "CANCELLED"
    assert _same(sweep.folder, SHORT, 2, undisturbed)


def test_a_pilot_whose_pool_fails_at_its_start(
    slurm: Cluster, make: Callable[..., Sweep], undisturbed: Undisturbed
) -> None:
    """As on a node whose modules are broken: the runs go on in the pilot that another node has."""
    sweep = make("blocks", SHORT, runs=2, max_blocks=2, setup='[[ "${SLURMD_NODENAME:-}" != n1 ]]')
    with sweep.driver() as driver:
        assert driver.wait(150) == 0, sweep.told()
    assert "FAILED" in [slurm.state(job) for job in slurm.jobs(states=("all",))]
    assert _same(sweep.folder, SHORT, 2, undisturbed)


def _rank(campaign: Campaign, job: int) -> None:
    runs = campaign.with_news()
    (node,) = campaign.sweep.slurm.nodes_of(job)
    rank = campaign.sweep.ranks(node)[-1]
    campaign.kill("kill -9 of a rank", runs, lambda: os.kill(rank, signal.SIGKILL))


def _rank_of_a_pilot(campaign: Campaign) -> None:
    campaign.with_news()
    _rank(campaign, _pilot(campaign))


def _node_of_an_allocation(campaign: Campaign, job: int) -> None:
    """One of several; the sweep goes on in the others."""
    slurm, sweep = campaign.sweep.slurm, campaign.sweep
    first = slurm.wait_for_job(job, "RUNNING") and slurm.nodes_of(job)[0]

    def elsewhere() -> str:
        fresh = campaign.with_news()
        return next((node for node, runs in sweep.nodes_with_runs().items() if node != first and runs & fresh), "")

    node = wait_until(elsewhere, 120, sweep.told)
    hit = sweep.runs_on(node)
    campaign.kill("kill -9 of a node of the allocation", hit, lambda: _lose(slurm, node))
    with campaign.paused():
        wait_until(lambda: any(hit & runs for runs in sweep.nodes_with_runs().values()), 90, sweep.told)
    assert slurm.state(job) == "RUNNING"
    assert node not in slurm.nodes_of(job)
    slurm.restore_node(node)


def _first_node(campaign: Campaign, job: int) -> None:
    """With the batch script and the driver: Slurm lets the job go on, and who is left there has it requeued."""
    campaign.with_news()
    slurm = campaign.sweep.slurm
    node = slurm.nodes_of(job)[0]
    campaign.kill("kill -9 of the allocation's first node", campaign.runs, lambda: _lose(slurm, node))
    with campaign.paused():
        slurm.wait_for_job(job, "PENDING")
    slurm.restore_node(node)
    slurm.wait_for_job(job, "RUNNING")


def _requeue(campaign: Campaign, job: int) -> None:
    campaign.with_news()
    hit, slurm = campaign.runs, campaign.sweep.slurm

    def requeue() -> None:
        slurm.requeue(job)
        slurm.wait_for_job(job, "PENDING")

    campaign.ask("a job is requeued", hit, requeue)
    slurm.wait_for_job(job, "RUNNING")


def _time_limit(campaign: Campaign, job: int) -> None:
    hit, slurm = campaign.with_news(), campaign.sweep.slurm

    def run_out() -> None:
        slurm.let_time_run_out(job, seconds=50)
        with campaign.paused() as ranks:
            wait_until(lambda: any(map(is_asked_to_end, ranks)), 60, campaign.sweep.told)
        slurm.wait_for_job(job)

    campaign.ask("a job's time limit", hit, run_out)


def _scancel(campaign: Campaign, job: int) -> None:
    hit, slurm = campaign.with_news(), campaign.sweep.slurm

    def cancel() -> None:
        slurm.cancel(job)
        slurm.wait_for_job(job)

    campaign.ask("scancel of a job", hit, cancel)


def _driver(campaign: Campaign) -> None:
    hit = campaign.with_news(previous=True)
    (driver,) = campaign.sweep.drivers()
    campaign.kill("kill -9 of the driver", hit, lambda: os.kill(driver, signal.SIGKILL))


def _node_of_a_pilot(campaign: Campaign) -> None:
    hit, slurm = campaign.with_news(), campaign.sweep.slurm
    (node,) = campaign.sweep.nodes_with_runs()
    campaign.kill("kill -9 of a pilot's node", hit, lambda: _lose(slurm, node))
    wait_until(campaign.sweep.nodes_with_runs, 90, campaign.sweep.told)
    slurm.restore_node(node)


def _pilot_cancelled(campaign: Campaign) -> None:
    hit, slurm = campaign.with_news(), campaign.sweep.slurm
    job = _pilot(campaign)

    def cancel() -> None:
        slurm.cancel(job)
        slurm.wait_for_job(job)

    campaign.ask("scancel of a pilot", hit, cancel)


def _time_limit_of_a_pilot(campaign: Campaign) -> None:
    campaign.with_news()
    _time_limit(campaign, _pilot(campaign))


def _asked(campaign: Campaign) -> None:
    # The pilots of the one before write checkpoints until then.
    wait_until(lambda: campaign.sweep.told().count(" of them finished before") == 2, 60, campaign.sweep.told)
    hit = campaign.with_news()
    (driver,) = campaign.sweep.drivers()

    def ask() -> None:
        os.kill(driver, signal.SIGTERM)
        wait_until(lambda: not campaign.sweep.drivers(), 60, campaign.sweep.told)

    campaign.ask("SIGTERM of the driver", hit, ask)


def _pilot(campaign: Campaign) -> int:
    """That which has the run."""
    slurm = campaign.sweep.slurm
    (node,) = campaign.sweep.nodes_with_runs()
    (job,) = (job for job in slurm.jobs(states=["RUNNING"]) if node in slurm.nodes_of(job))
    return job


def _lose(slurm: Cluster, node: str) -> None:
    slurm.kill_node(node)
    slurm.declare_down(node)


def _survived(campaign: Campaign, client_updates: int, runs: int, undisturbed: Undisturbed) -> None:
    lost = runs - len(results(campaign.folder))
    print("\n" + table(campaign.costs, lost))
    assert lost == 0
    assert _same(campaign.folder, client_updates, runs, undisturbed)
    assert not campaign.begun_anew
    assert max(cost.seconds for cost in campaign.costs) < CHECKPOINT_SECONDS + SLACK_SECONDS
    assert not list(campaign.folder.glob("**/*.tmp.*"))


def _same(folder: Path, client_updates: int, runs: int, undisturbed: Undisturbed) -> bool:
    """Whether the results are there, with the bytes of a sweep that nothing happened to."""
    found, expected = results(folder), results(undisturbed.results(client_updates))
    return len(found) == runs and all(numbers(found[name]) == numbers(expected[name]) for name in found)
