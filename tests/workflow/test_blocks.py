"""Pilot jobs that end before their workers are heard of: three in a row are enough."""

import time
from pathlib import Path

import pytest
from parsl.jobs.states import JobState, JobStatus
from parsl.providers import LocalProvider

from workflow.blocks import BlocksFailed, Runs, refuse_hopeless_blocks


class _Executor(Runs):
    """Parsl's own, never started, which says what it would have heard of."""

    def __init__(self, heard_of: list[str]) -> None:
        super().__init__(3600, provider=LocalProvider(max_blocks=8))
        self._heard_of = heard_of

    def connected_blocks(self) -> list[str]:
        return self._heard_of


def _status(*states: JobState, left: Path | None = None) -> dict[str, JobStatus]:
    path = str(left) if left else None
    return {str(block): JobStatus(state, stderr_path=path) for block, state in enumerate(states)}


def test_two_that_never_began_are_bad_luck() -> None:
    executor = _Executor([])
    refuse_hopeless_blocks(executor, _status(JobState.MISSING, JobState.MISSING, JobState.PENDING))
    refuse_hopeless_blocks(
        executor, _status(JobState.MISSING, JobState.MISSING, JobState.COMPLETED, JobState.MISSING, JobState.RUNNING)
    )
    assert not executor.bad_state_is_set
    assert executor.provider.max_blocks == 8


def test_three_in_a_row_are_the_end_and_say_what_they_left(tmp_path: Path) -> None:
    left = tmp_path / "stderr"
    left.write_text("line\n\nbash: module: no such module\n")
    executor = _Executor([])
    # The one that waits in the queue would end as they did.
    refuse_hopeless_blocks(executor, _status(*[JobState.MISSING] * 3, JobState.PENDING, left=left))
    assert isinstance(executor.executor_exception, BlocksFailed)
    told = str(executor.executor_exception)
    assert f"3 jobs in a row ended before their workers were there; the last lines of {left}:" in told
    assert "    bash: module: no such module" in told


def test_what_sbatch_said_is_told_without_ornament() -> None:
    refused = (
        "Failed to start block 0: Cannot launch job x: no ID; recode=1, stdout=, stderr=sbatch: error: bad account"
    )
    executor = _Executor([])
    refuse_hopeless_blocks(executor, {str(block): JobStatus(JobState.MISSING, message=refused) for block in range(3)})
    assert "    sbatch: error: bad account" in str(executor.executor_exception)
    assert "Cannot launch" not in str(executor.executor_exception)


def test_where_others_live_the_sweep_goes_on_with_them() -> None:
    executor = _Executor(["0", "1"])
    refuse_hopeless_blocks(executor, _status(JobState.RUNNING, JobState.COMPLETED, *[JobState.MISSING] * 3))
    assert not executor.bad_state_is_set
    assert executor.provider.max_blocks == 1


@pytest.mark.parametrize("left", [None, Path("no such file")])
def test_nothing_left_is_no_crash(left: Path | None) -> None:
    executor = _Executor([])
    refuse_hopeless_blocks(executor, _status(*[JobState.MISSING] * 3, left=left))
    assert "nothing was said" in str(executor.executor_exception)


def test_one_that_has_just_begun_is_waited_for_within_bounds() -> None:
    executor = _Executor([])
    refuse_hopeless_blocks(executor, _status(JobState.RUNNING, *[JobState.MISSING] * 9))
    assert not executor.bad_state_is_set
    refuse_hopeless_blocks(executor, _status(JobState.RUNNING, *[JobState.MISSING] * 10))
    assert executor.bad_state_is_set


class _Refusing(LocalProvider):
    """A queue that takes so many jobs and no more."""

    asked = 0

    def submit(self, command: str, tasks_per_node: int, job_name: str = "") -> str:
        self.asked += 1
        if self.asked > 2:
            raise RuntimeError("full")
        return str(self.asked)


def test_a_queue_that_refuses_is_left_alone_for_a_while() -> None:
    provider = _Refusing(max_blocks=8)
    executor = Runs(3600, provider=provider)
    executor.launch_cmd = "true"
    assert len(executor.scale_out_facade(3)) == 2
    assert executor.scale_out_facade(3) == []
    assert provider.asked == 3


def test_after_a_block_that_was_never_heard_of_none_is_asked_for_at_once() -> None:
    provider = _Refusing(max_blocks=8)
    executor = Runs(0.5, provider=provider)
    executor.launch_cmd = "true"
    executor.connected_blocks = list  # type: ignore[method-assign]
    refuse_hopeless_blocks(executor, _status(JobState.MISSING))
    assert executor.scale_out_facade(1) == []
    time.sleep(0.6)
    # That it is still the last one changes nothing.
    refuse_hopeless_blocks(executor, _status(JobState.MISSING))
    assert len(executor.scale_out_facade(1)) == 1


def test_no_block_to_give_back_is_none() -> None:
    """Parsl's own gives back all that are idle then, or have not begun."""
    assert _Executor([]).scale_in(0, 1.0) == []
