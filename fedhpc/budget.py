"""How long a federation lasts and when it is evaluated."""

from typing import Literal, Protocol, Self

from pydantic import Field, model_validator

from fedhpc.settings import Settings

MOST_EVALUATIONS = 1_000_000

Unit = Literal["client_updates", "client_trips", "server_updates", "virtual_seconds"]
Accuracy = Literal["total_accuracy", "straggler_accuracy", "top5_accuracy", "balanced_accuracy", "dice"]


class Quality(Protocol):
    """An evaluation's accuracies, as fractions; None where the task does not measure one."""

    @property
    def total_accuracy(self) -> float: ...
    @property
    def straggler_accuracy(self) -> float | None: ...
    @property
    def top5_accuracy(self) -> float | None: ...
    @property
    def balanced_accuracy(self) -> float | None: ...
    @property
    def dice(self) -> float | None: ...


class Target(Settings):
    """An accuracy, as a fraction, at or above which an evaluation ends the federation."""

    metric: Accuracy
    value: float = Field(gt=0, le=1)

    def is_met(self, quality: Quality) -> bool:
        """Whether an evaluation is at or above it."""
        found: float | None = getattr(quality, self.metric)
        return found is not None and found >= self.value


class Counts(Protocol):
    """What a federation has come to."""

    client_updates: int
    client_trips: int
    server_updates: int


class Budget(Settings):
    """When a federation ends: at the first of these that is reached. Client updates count when aggregated, client trips
    when uploaded; ``target`` alone ends nothing that never gets there."""

    client_updates: int | None = Field(None, ge=1, le=10**12)
    client_trips: int | None = Field(None, ge=1, le=10**12)
    server_updates: int | None = Field(None, ge=1, le=10**12)
    virtual_seconds: float | None = Field(None, gt=0, le=1e15)
    target: Target | None = None

    @model_validator(mode="after")
    def _something_ends_it(self) -> Self:
        if (self.client_updates, self.client_trips, self.server_updates, self.virtual_seconds) == (None,) * 4:
            raise ValueError("give client_updates, client_trips, server_updates or virtual_seconds, or more than one")
        return self

    def most_rounds(self, cohort: int) -> int | None:
        """Server updates of so many client updates each that fit in it, or None where only time ends it."""
        limits = [self.server_updates] if self.server_updates is not None else []
        limits += [-(-limit // cohort) for limit in (self.client_updates, self.client_trips) if limit is not None]
        return min(limits, default=None)

    def fraction(self, totals: Counts, virtual_seconds: float) -> float:
        """How much of it a federation that has come this far has used, 0..1."""
        shares = [
            reached / limit
            for reached, limit in (
                (totals.client_updates, self.client_updates),
                (totals.client_trips, self.client_trips),
                (totals.server_updates, self.server_updates),
                (virtual_seconds, self.virtual_seconds),
            )
            if limit is not None
        ]
        return min(1.0, max(shares))


class Evaluation(Settings):
    """Evaluation k takes the first server version at or past ``k * every``; the last evaluation is the final model."""

    every: float = Field(gt=0)
    unit: Unit = "client_updates"
