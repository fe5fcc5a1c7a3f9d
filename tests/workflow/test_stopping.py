"""A sweep that is asked to stop loses nothing: each run goes on from the checkpoint that it wrote on the signal."""

import os
import pickle
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from fedhpc.experiment import Run, load_experiment
from fedhpc.store.lease import take_lease
from fedhpc.store.progress import read_progress
from tests.workflow.experiments import (
    fedhpc,
    is_asked_to_end,
    processes_of,
    same_numbers,
    standing_still,
    started,
    wait_until,
    write,
)
from workflow.apps import RunInterrupted, train
from workflow.results_folder import log_file, write_experiment
from workflow.sites import Site

RUN = Run("fedbuff", "slow", 0)
KEPT = re.compile(r"interrupted; a checkpoint was written at server version (\d+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where nothing is kept but on a signal, and what fails is not tried again."""
    return write(tmp_path_factory.mktemp("site") / "never.yaml", {"checkpoint_seconds": 1e6, "retries": 0})


@pytest.mark.parametrize("whom", ["driver", "everybody"])
def test_a_stopped_sweep_goes_on_where_it_was(
    tmp_path: Path, one_run: Path, site: Path, undisturbed: Path, whom: str
) -> None:
    """The second sweep is stopped too: what it started from and what it came to are both there."""
    folder, logs = tmp_path / "results", []
    for attempt in range(2):
        log = tmp_path / f"log-{attempt}"
        with started("sweep", one_run, "--site", site, "--output", folder, log=log) as driver:
            wait_until(lambda: _is_learning(folder))
            with standing_still(ranks := processes_of(folder, "-m workflow run")):
                for process in {driver.pid, *(processes_of(folder) if whom == "everybody" else [])}:
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGTERM)
                wait_until(lambda ranks=ranks: any(map(is_asked_to_end, ranks)))
            assert driver.wait(60) == 128 + signal.SIGTERM, log.read_text()
        assert "the same command goes on with the others from their checkpoints" in log.read_text()
        assert not processes_of(folder)
        assert not (folder / "lease.json").exists()
        logs.append(log_file(folder, RUN).read_text())
        status = fedhpc("status", folder).stdout
        assert "0 finished, 0 running, 0 failed, 1 waiting" in status
        assert re.search(r"waiting  fedbuff/slow/trial-0  interrupted at \d+ %", status)
    done = fedhpc("sweep", one_run, "--site", site, "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    logs.append(log_file(folder, RUN).read_text())
    for before, after in ((logs[0], logs[1]), (logs[1], logs[2])):
        (version,) = KEPT.findall(before)
        assert int(version) > 0
        assert f"goes on from server version {version}\n" in after
    assert same_numbers(folder, undisturbed)
    assert not list(folder.glob("**/*.tmp.*"))


def test_a_run_of_an_ending_sweep_does_not_begin(tmp_path: Path, one_run: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    write_experiment(load_experiment(one_run), folder)
    with take_lease(folder) as lease:
        lease.end()
        with pytest.raises(RunInterrupted) as interrupted:
            train(folder, RUN, "a digest", Site.model_validate({}), lease.token)
    copy = pickle.loads(pickle.dumps(interrupted.value))
    assert copy.run == RUN
    assert str(copy) == "fedbuff/slow/trial-0: interrupted; it goes on from its last checkpoint"
    assert not log_file(folder, RUN).exists()


def test_a_rank_that_does_not_stop_is_killed(tmp_path: Path, one_run: Path, site: Path) -> None:
    """It hangs: the sweep ends all the same, within its time."""
    folder = tmp_path / "results"
    with started("sweep", one_run, "--site", site, "--output", folder, log=tmp_path / "log") as driver:
        wait_until(lambda: _is_learning(folder))
        for process in processes_of(folder, "-m workflow run"):
            os.kill(process, signal.SIGSTOP)
        driver.terminate()
        assert driver.wait(60) == 128 + signal.SIGTERM
    assert not processes_of(folder)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, one_run: Path, undisturbed: Path) -> None:
    """The newest is cut short, as by a lost node's disk: the run goes on from the one before it."""
    folder, hasty = tmp_path / "results", write(tmp_path / "hasty.yaml", {"checkpoint_seconds": 0.3})
    newest = RUN.file(folder, ".checkpoint")
    with started("sweep", one_run, "--site", hasty, "--output", folder, log=tmp_path / "log") as driver:
        wait_until(lambda: newest.with_name(newest.name + ".previous").exists())
        driver.terminate()
        assert driver.wait(60) == 128 + signal.SIGTERM
    (version,) = KEPT.findall(log_file(folder, RUN).read_text())
    newest.write_bytes(newest.read_bytes()[:-100])
    done = fedhpc("sweep", one_run, "--site", hasty, "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (begun,) = re.findall(r"goes on from server version (\d+)", log_file(folder, RUN).read_text())
    assert 0 <= int(begun) < int(version)
    assert same_numbers(folder, undisturbed)


def _is_learning(folder: Path) -> bool:
    """Whether the run's ranks have told of some client updates, and go on."""
    progress = read_progress(RUN.file(folder, ".progress.json"))
    ranks = processes_of(folder, "-m workflow run")
    return (
        progress is not None and progress.state == "running" and progress.client_updates > 20 and progress.pid in ranks
    )
