"""Clients' capability: how many examples a client processes in a virtual second, one constant a client (FedCore: Guo et
al. 2024, section 3.1)."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedhpc.federation.population import Population
from fedhpc.latency.distributions import OnceAClient
from fedhpc.settings import Settings


class ByExamples(Settings):
    """mean + std (n - n_mean) / n_std, where n are the examples that a client holds, n_mean and n_std their mean and
    standard deviation over the population (all of it, divided by the number of clients): FedCore's released code. All
    clients have ``mean`` where all hold as many examples."""

    distribution: Literal["by_examples"]
    mean: float = Field(1.0, gt=0, le=1e15)
    std: float = Field(0.25, ge=0, le=1e15)

    def of(self, examples: NDArray[np.int64]) -> NDArray[np.float64]:
        """Each client's, float64 [clients]; it may be 0 or less."""
        spread = float(examples.std())
        return (
            self.mean + self.std * (examples - examples.mean()) / spread
            if spread
            else np.full(len(examples), self.mean)
        )


Capability = Annotated[OnceAClient | ByExamples, Field(discriminator="distribution")]


def capability_mistakes(capability: Capability | None, population: Population) -> list[str]:
    """What cannot be with these clients: sentences that begin with the key within the scenario."""
    if not isinstance(capability, ByExamples):
        return []
    lowest = int(np.argmin(population.examples))
    found = capability.of(population.examples).item(lowest)
    if found > 0:
        return []
    return [
        f"capability.std: client {lowest}, who holds {population.examples.item(lowest):,} examples, would process "
        f"{found:.3g} in a second, which must be above 0; lower std or raise mean"
    ]


def percent_mistakes(straggler_percent: float | None, population: Population) -> list[str]:
    """A share where a percentage is meant: below 1, and less than one of these clients. A sentence that begins with the
    key within the scenario."""
    if straggler_percent is None or straggler_percent >= 1 or straggler_percent / 100 * len(population) >= 1:
        return []
    return [
        f"straggler_percent: {straggler_percent:g} is a percentage, and less than one of {len(population)} clients; "
        f"give {100 * straggler_percent:g} for {100 * straggler_percent:g} %"
    ]
