"""What algorithms say in which all clients always train, at speeds that the scheduler counts on (cross-silo)."""

from typing import Literal

from pydantic import field_validator

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.population import Population
from fedhpc.federation.schedulers.settings import AlgorithmSettings


class EverybodySettings(AlgorithmSettings):
    """``weighting``: a client's share p_i in all, by its number of examples or alike."""

    weighting: Literal["examples", "uniform"] = "examples"

    @property
    def updates(self) -> int:
        """One at least: how many more make a server update is a matter of the clients' speeds."""
        return 1

    @field_validator("client")
    @classmethod
    def _steps_are_counted(cls, client: ClientSettings) -> ClientSettings:
        if client.time_limit is not None:
            raise ValueError(
                "time_limit: goes with no scheduler that counts on seconds a step; leave it out, or name another "
                "scheduler"
            )
        return client

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        found = super().mistakes(population, budget)
        empty = int((population.examples == 0).sum())
        if empty:
            found.append(
                f"scheduler: {self.scheduler} starts all clients and counts on their seconds a step, and {empty} of "
                f"{len(population)} clients hold no example to take a step on; give the task a partition without empty "
                "clients, or fewer clients"
            )
        return found
