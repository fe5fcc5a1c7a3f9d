"""What is done about blocks that end before their workers were ever heard of: a queue's refusal, a broken setup."""

import time
from collections.abc import Collection
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from parsl.executors import HighThroughputExecutor
from parsl.executors.status_handling import BlockProviderExecutor
from parsl.jobs.states import JobState, JobStatus

_IN_A_ROW = 3
_AT_MOST = 10
_TAIL = 5


class BlocksFailed(Exception):
    """Block after block ended before its workers were there."""


@runtime_checkable
class AvoidsNodes(Protocol):
    """A provider that can ask for other nodes than a job has had."""

    def avoid_nodes_of(self, job: str) -> None:
        """From now on."""


class Runs(HighThroughputExecutor):
    """Parsl's, which takes a request to give back no block for one to give back all that are idle, or yet to start, and
    which asks Slurm twice a second for a block that it refuses; here after ``patience`` seconds."""

    def __init__(self, patience: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._patience, self._not_before = patience, 0.0
        self._barren: set[str] = set()

    def scale_out_facade(self, n: int) -> list[str]:
        """The blocks that were asked for and not refused."""
        if time.monotonic() < self._not_before:
            return []
        found = super().scale_out_facade(n)
        if len(found) < n:
            self.hold_off()
        return found

    def hold_off(self) -> None:
        """Asks for no block for a while."""
        self._not_before = time.monotonic() + self._patience

    def found_barren(self, blocks: Collection[str]) -> None:
        """Learns of blocks that ended before their workers were heard of: the next is asked for a while after the
        last of them, and on other nodes."""
        news = [block for block in blocks if block not in self._barren]
        self._barren.update(news)
        if news:
            self.hold_off()
        for block in news:
            if isinstance(self.provider, AvoidsNodes) and block in self.blocks_to_job_id:
                self.provider.avoid_nodes_of(self.blocks_to_job_id[block])

    def hold(self, block: str) -> None:
        """Gives that block no more to do: it is about to end. What it was given would be missed half a minute later."""
        self._hold_block(block)  # type: ignore[no-untyped-call]

    def scale_in(self, blocks: int, max_idletime: float | None = None) -> list[str]:
        """The blocks given back: at most so many."""
        return super().scale_in(blocks, max_idletime) if blocks > 0 else []


def refuse_hopeless_blocks(executor: BlockProviderExecutor, status: dict[str, JobStatus]) -> None:
    """After three such in a row no more are asked for: the runs go on in those that live, or fail where there are none
    (BlocksFailed, with what the last one left). Those that have just begun may yet be heard of, and are waited for
    until ten have not been."""
    assert isinstance(executor, Runs)
    ended = [block for block in sorted(status, key=int, reverse=True) if status[block].terminal]
    blocks = list(takewhile(lambda block: status[block].state == JobState.MISSING, ended))
    executor.found_barren(blocks)
    barren = [status[block] for block in blocks]
    if len(barren) < _IN_A_ROW:
        return
    assert executor.provider is not None
    heard_of = executor.connected_blocks()
    living = sum(not each.terminal and block in heard_of for block, each in status.items())
    begun = sum(each.state == JobState.RUNNING for each in status.values())
    if living:
        executor.provider.max_blocks = living
    elif not begun or len(barren) >= _AT_MOST:
        executor.set_bad_state_and_fail_all(BlocksFailed(_in_words(barren)))


def _in_words(barren: list[JobStatus]) -> str:
    # What a job has left says more than why none could be had any more.
    last = next((each for each in barren if _last_lines(each)), barren[0])
    left = _last_lines(last)
    where = f"; the last lines of {last.stderr_path}:" if left and last.stderr_path else ":"
    told = left or _message(last).splitlines()
    return "\n".join(
        [
            f"{len(barren)} jobs in a row ended before their workers were there{where}",
            *(f"    {line}" for line in told),
            "fedhpc site check looks for the cause",
        ]
    )


def _message(status: JobStatus) -> str:
    """What sbatch had to say, without Parsl's words around it."""
    message = status.message or "nothing was said"
    _, refused, said = message.partition("stderr=")
    return said.strip() if refused else message


def _last_lines(status: JobStatus) -> list[str]:
    if status.stderr_path is None:
        return []
    try:
        text = Path(status.stderr_path).read_text(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-_TAIL:]
