"""What an attempt that ended without a result costs, of the attempts that a run has.

A lost node or a block that ends is nobody's fault, and the run goes on from its checkpoint: it costs little, but
something, so that a run which takes its nodes down with it does not go on for ever. A mistake that was told in words
would be told again.
"""

from collections.abc import Mapping
from typing import Any

from parsl.executors.errors import BadStateException
from parsl.executors.high_throughput.errors import ManagerLost, WorkerLost

from fedhpc.experiment import Run
from workflow.apps import RunFailed, RunInterrupted
from workflow.placement import NoRoom

FAILURE = 20
"""Parsl counts in whole numbers: a failure is so many interruptions."""
INTERRUPTIONS = FAILURE - 1
"""As many are free of charge."""

_TOLD_IN_WORDS = 2


def in_words(error: BaseException, task: Mapping[str, Any]) -> str:
    """What a person is told of an attempt after which the run is tried again."""
    run = next((each for each in task["args"] if isinstance(each, Run)), None)
    what = str(run) if run is not None else task["func_name"]
    match error:
        case ManagerLost():
            why = f"the workers on {error.hostname} were lost"
        case WorkerLost():
            why = f"a worker on {error.hostname} was lost"
        case RunInterrupted():
            why = "was asked to stop with its worker"
        case RunFailed():
            why = f"failed ({error.reason}; its log is kept as {error.log}.1)"
        case _:
            why = str(error).partition("\n")[0] or type(error).__name__
    return f"{what}: {why}; it is tried again" + (", from its last checkpoint" if run is not None else "")


def cost(error: BaseException, retries: int) -> int:
    """In interruptions; ``retries`` is how often a run that failed is tried again."""
    if isinstance(error, RunInterrupted | ManagerLost | WorkerLost):
        return 1
    in_vain = isinstance(error, BadStateException | NoRoom) or (
        isinstance(error, RunFailed) and error.status == _TOLD_IN_WORDS
    )
    if in_vain:
        return FAILURE * (retries + 1)
    return FAILURE
