"""What every algorithm of an experiment says, whatever its scheduler."""

from typing import Literal

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.moving_average import MovingAverageSettings
from fedhpc.federation.population import Population
from fedhpc.optimizers import Optimizer
from fedhpc.settings import Settings


class AlgorithmSettings(Settings):
    """A named algorithm: its clients' work, its server optimiser, how updates weigh, and what model it gives.

    ``weighting``: by the client's number of examples (McMahan et al. 2017), or all alike. ``ema``: what is evaluated is
    a moving average of the global model.
    """

    client: ClientSettings
    server_optimizer: Optimizer
    weighting: Literal["examples", "uniform"]
    ema: MovingAverageSettings | None = None

    @property
    def updates(self) -> int:
        """Client updates that make a server update."""
        raise NotImplementedError

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        """What cannot work with this population, or within this budget: sentences that begin with the key within the
        algorithm."""
        return []
