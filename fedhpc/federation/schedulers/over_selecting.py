"""What algorithms with rounds of over-selected clients say (Hard et al. 2023, sections 1 and 2)."""

import math
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from fedhpc.budget import Budget
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.settings import AlgorithmSettings


class OverSelectingSettings(AlgorithmSettings):
    """``cohort`` is B, the updates a round waits for; ``over_selection`` is B_t, the clients it starts (default B).

    Where slow clients of earlier rounds go on, a round starts fewer when fewer are free: B at least, who just came."""

    cohort: int = Field(ge=1, le=10**8)
    over_selection: int | None = Field(None, ge=1)

    @property
    def updates(self) -> int:
        """B."""
        return self.cohort

    @property
    def selected(self) -> int:
        """B_t: how many clients a round starts."""
        return self.over_selection or self.cohort

    @field_validator("over_selection", mode="before")
    @classmethod
    def _is_no_factor(cls, over_selection: Any, others: ValidationInfo) -> Any:
        cohort = others.data.get("cohort")
        is_share = isinstance(over_selection, float) and 0 < over_selection < math.inf
        if is_share and not over_selection.is_integer() and cohort:
            started = math.ceil(round(over_selection * cohort, 6))
            raise ValueError(
                f"{over_selection:g} is no number of clients; say how many are started: {started} for "
                f"{over_selection:g} times cohort {cohort}"
            )
        return over_selection

    @field_validator("over_selection")
    @classmethod
    def _selects_at_least_the_cohort(cls, over_selection: int | None, others: ValidationInfo) -> int | None:
        cohort = others.data.get("cohort", 0)
        if over_selection is not None and over_selection < cohort:
            raise ValueError(f"over_selection: {over_selection} is below cohort {cohort}; raise it or lower cohort")
        return over_selection

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        found = super().mistakes(population, budget)
        key = "cohort" if self.over_selection is None else "over_selection"
        if self.selected > len(population):
            found.append(f"{key}: {self.selected} exceeds the population of {len(population)} clients; lower it")
        return found
