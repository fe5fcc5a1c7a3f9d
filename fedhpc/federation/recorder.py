"""What a run keeps: a row an evaluation, a row a server update, a row a client, and how long client updates took."""

from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpc.budget import MOST_EVALUATIONS, Evaluation
from fedhpc.federation.server import Server
from fedhpc.federation.updates import ScheduleError, ServerUpdate, Totals

Columns = dict[str, NDArray[np.generic]]

MOST_DURATIONS = 1_000_000
"""Client updates whose durations are kept: a run's first."""


@dataclass(frozen=True)
class Metrics:
    """An output model's quality on held-out examples: accuracies and ``dice`` in 0..1, the mean loss (cross-entropy in
    nats, or 1 less the Dice score), ``perplexity`` its exponential. What the task does not measure is None, as
    ``straggler_accuracy`` where it has no straggler classes or tags.
    """

    total_accuracy: float
    straggler_accuracy: float | None
    loss: float
    top5_accuracy: float | None = None
    balanced_accuracy: float | None = None
    dice: float | None = None
    perplexity: float | None = None


@dataclass
class Recorder:
    """Follows a schedule and says which versions are to be evaluated.

    Row k is the first version at or past ``k * every``, with the true counts; the last version always has a row.
    """

    evaluation: Evaluation
    steps_of_trees: dict[int, int] = field(default_factory=dict)
    """Server updates in each tree of noise."""
    _rows: list[tuple[int, float, Totals]] = field(default_factory=list)
    _updates: list[tuple[float, float, int, int]] = field(default_factory=list)
    _durations: "array[float]" = field(default_factory=lambda: array("f"))
    last: ServerUpdate | None = None
    """The newest server update that was observed."""

    def observe(self, update: ServerUpdate) -> bool:
        """Takes the next server update; true if its version is to be evaluated."""
        self.last = update
        if update.version:
            tree, step = update.tree_step
            self.steps_of_trees[tree] = step
            stale, count = [client_update.staleness for client_update in update.updates], len(update.updates)
            mean = sum(stale) / count if count else 0.0
            self._updates.append((update.time, mean, max(stale, default=0), count))
            if len(self._durations) < MOST_DURATIONS:
                self._durations.extend([used.arrives - used.started for used in update.updates])
                if update.late:
                    self._durations.extend([used.arrives - used.started for used in update.late])
        rows = len(self._rows)
        reached = self._reached(update)
        if reached / self.evaluation.every > MOST_EVALUATIONS:
            raise ScheduleError(f"evaluation.every: more than {MOST_EVALUATIONS:,} evaluations; raise it")
        while len(self._rows) * self.evaluation.every <= reached:
            self._rows.append((update.version, update.time, update.totals))
        return len(self._rows) > rows

    def finish(self) -> int | None:
        """The schedule is over: the last version, if it still is to be evaluated."""
        assert self.last is not None
        if self._rows[-1][0] == self.last.version:
            return None
        self._rows.append((self.last.version, self.last.time, self.last.totals))
        return self.last.version

    def evaluations(self, metrics: dict[int, Metrics]) -> Columns:
        """The columns along ``evaluation``; ``metrics`` by version, empty for a task that trains nothing."""
        totals = [row[2] for row in self._rows]
        columns: Columns = {
            "time": np.array([row[1] for row in self._rows]),
            "server_updates": np.array([total.server_updates for total in totals], np.int64),
            "client_updates": np.array([total.client_updates for total in totals], np.int64),
            "late_updates": np.array([total.late_updates for total in totals], np.int64),
            "client_trips": np.array([total.client_trips for total in totals], np.int64),
            "local_steps": np.array([total.local_steps for total in totals], np.int64),
            "resource_used": np.array([total.resource_used for total in totals]),
            "resource_wasted": np.array([total.resource_wasted for total in totals]),
            "unique_clients": np.array([total.unique_clients for total in totals], np.int64),
        }
        if metrics:
            of_rows = [asdict(metrics[row[0]]) for row in self._rows]
            measured = [name for name, value in of_rows[0].items() if value is not None]
            columns |= {name: np.array([found[name] for found in of_rows], np.float64) for name in measured}
        return columns

    def server_updates(self, coreset_errors: Mapping[int, float] | None = None) -> Columns:
        """The columns along ``server_update``. ``coreset_errors``: by the version that the update made, some of them;
        None where none are asked for."""
        columns: Columns = {
            "server_update_time": np.array([row[0] for row in self._updates], np.float64),
            "staleness": np.array([row[1] for row in self._updates], np.float64),
            "staleness_max": np.array([row[2] for row in self._updates], np.int64),
            "updates_aggregated": np.array([row[3] for row in self._updates], np.int64),
        }
        if coreset_errors is not None:
            versions = range(1, len(self._updates) + 1)
            columns["coreset_error"] = np.array([coreset_errors.get(version, np.nan) for version in versions])
        return columns

    def client_updates(self) -> Columns:
        """The column along ``client_update``: the first that were used, in the order of the server updates and within
        each of arrival, late ones last."""
        return {"duration": np.array(self._durations[:MOST_DURATIONS], np.float32)}

    def state(self) -> dict[str, Any]:
        """What was recorded so far, as JSON has it, for a schedule that cannot be played again."""
        assert self.last is not None
        return {
            "rows": [(version, time, asdict(totals)) for version, time, totals in self._rows],
            "updates": self._updates,
            "durations": self._durations.tolist(),
            "last": (self.last.version, self.last.time, asdict(self.last.totals)),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from what ``state()`` gave."""
        self._rows = [(version, time, Totals(**totals)) for version, time, totals in state["rows"]]
        self._updates = [tuple(row) for row in state["updates"]]
        self._durations = array("f", state["durations"])
        version, time, totals = state["last"]
        self.last = ServerUpdate(version, time, [], [], Totals(**totals), [])

    def _reached(self, update: ServerUpdate) -> float:
        match self.evaluation.unit:
            case "client_updates":
                return update.totals.client_updates
            case "client_trips":
                return update.totals.client_trips
            case "server_updates":
                return update.totals.server_updates
            case "virtual_seconds":
                return update.time


def client_columns(schedule: Server) -> Columns:
    """The columns along ``client``: who they are, and how often each took part and was used."""
    clients = len(schedule.population)
    participations, aggregated = np.zeros(clients, np.int64), np.zeros(clients, np.int64)
    for counts, column in ((schedule.participations, participations), (schedule.aggregated, aggregated)):
        column[list(counts)] = list(counts.values())
    return {
        "examples": schedule.population.examples,
        "straggler": schedule.population.stragglers.astype(np.int8),
        "participations": participations,
        "updates_aggregated_of_client": aggregated,
    }
