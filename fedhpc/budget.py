"""How long a federation lasts and when it is evaluated."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fedhpc.settings import Settings

MOST_EVALUATIONS = 1_000_000

Unit = Literal["client_updates", "server_updates", "virtual_seconds"]


class Budget(Settings):
    """When a federation ends: at the first of these that is reached. Client updates count when aggregated."""

    client_updates: int | None = Field(None, ge=1, le=10**12)
    server_updates: int | None = Field(None, ge=1, le=10**12)
    virtual_seconds: float | None = Field(None, gt=0, le=1e15)

    @model_validator(mode="after")
    def _something_ends_it(self) -> Self:
        if self.client_updates is None and self.server_updates is None and self.virtual_seconds is None:
            raise ValueError("give client_updates, server_updates or virtual_seconds, or more than one")
        return self

    def fraction(self, client_updates: int, server_updates: int, virtual_seconds: float) -> float:
        """How much of it these counts have used, 0..1."""
        shares = [
            reached / limit
            for reached, limit in (
                (client_updates, self.client_updates),
                (server_updates, self.server_updates),
                (virtual_seconds, self.virtual_seconds),
            )
            if limit is not None
        ]
        return min(1.0, max(shares))


class Evaluation(Settings):
    """Evaluation k takes the first server version at or past ``k * every``; the last evaluation is the final model."""

    every: float = Field(gt=0)
    unit: Unit = "client_updates"
