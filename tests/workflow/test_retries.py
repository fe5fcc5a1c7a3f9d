"""What an attempt costs: faults of the machine little, mistakes in words everything."""

import signal
from pathlib import Path

import pytest
from parsl.executors.high_throughput.errors import ManagerLost, WorkerLost

from fedhpc.experiment import Run
from workflow.apps import RunFailed, RunInterrupted
from workflow.parsl_config import parsl_config
from workflow.placement import NoRoom
from workflow.retries import FAILURE, INTERRUPTIONS, cost, in_words
from workflow.sites import Site

RUN = Run("a", "b", 0)
FAILED = RunFailed(RUN, 1, Path("log"), "")
IN_WORDS = RunFailed(RUN, 2, Path("log"), "")
KILLED = RunFailed(RUN, -int(signal.SIGKILL), Path("log"), "")
LOST: list[Exception] = [RunInterrupted(RUN), ManagerLost(b"1", "n1"), WorkerLost(0, "n1")]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_how_often_a_run_is_tried(retries: int) -> None:
    allowed = parsl_config(Site.model_validate({"retries": retries}), Path("somewhere")).retries

    def goes_on(*errors: Exception) -> bool:
        return sum(cost(error, retries) for error in errors) <= allowed

    assert goes_on(*[FAILED] * retries)
    assert not goes_on(*[FAILED] * (retries + 1))
    assert not goes_on(IN_WORDS)
    assert not goes_on(NoRoom("a run takes 2 nodes"))
    assert goes_on(*[KILLED] * retries, *LOST)
    # A run that takes down whatever it runs on ends some time.
    assert goes_on(*[LOST[1]] * INTERRUPTIONS)
    assert not goes_on(*[LOST[1]] * (FAILURE * (retries + 1)))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LOST[0], "a/b/trial-0: was asked to stop with its worker; it is tried again, from its last checkpoint"),
        (LOST[1], "a/b/trial-0: the workers on n1 were lost; it is tried again, from its last checkpoint"),
        (KILLED, "a/b/trial-0: failed (killed by SIGKILL; its log is kept as log.1); it is tried again, from its last"),
    ],
)
def test_what_a_person_is_told(error: Exception, told: str) -> None:
    assert in_words(error, {"args": (Path("folder"), RUN, "digest"), "func_name": "train"}).startswith(told)
    assert in_words(error, {"args": (), "func_name": "report"}).startswith("report: ")
