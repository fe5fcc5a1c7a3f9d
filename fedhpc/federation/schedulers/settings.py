"""What every algorithm of an experiment says, whatever its scheduler."""

from typing import Literal

from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.population import Population
from fedhpc.optimizers import Optimizer
from fedhpc.settings import Settings


class AlgorithmSettings(Settings):
    """A named algorithm: its clients' work, its server optimiser, and how updates weigh.

    ``weighting``: by the client's number of examples (McMahan et al. 2017), or all alike.
    """

    client: ClientSettings
    server_optimizer: Optimizer
    weighting: Literal["examples", "uniform"]

    @property
    def updates(self) -> int:
        """Client updates that make a server update."""
        raise NotImplementedError

    def mistakes(self, population: Population) -> list[str]:
        """What cannot work with this population: sentences that begin with the key within the algorithm."""
        return []
