"""What every algorithm of an experiment says, whatever its scheduler."""

from typing import ClassVar, Literal

from pydantic import field_validator

from fedhpc.budget import Budget
from fedhpc.clients.settings import ClientSettings
from fedhpc.federation.moving_average import MovingAverageSettings
from fedhpc.federation.population import Population
from fedhpc.federation.privacy_settings import PrivacySettings
from fedhpc.optimizers import Optimizer
from fedhpc.settings import Settings


class AlgorithmSettings(Settings):
    """A named algorithm: its clients' work, its server optimiser, how updates weigh, and what model it gives.

    ``weighting``: by the client's number of examples (McMahan et al. 2017), or all alike. ``ema``: what is evaluated is
    a moving average of the global model. ``privacy``: noise that protects who takes part.

    ``HAS_ROUNDS``: whether clients start in rounds that a scenario's deadline can be the end of.
    ``FOLLOWS_AVAILABILITY``: whether only clients who are online are started.
    """

    HAS_ROUNDS: ClassVar[bool] = False
    FOLLOWS_AVAILABILITY: ClassVar[bool] = False

    scheduler: str
    client: ClientSettings
    server_optimizer: Optimizer
    weighting: Literal["examples", "uniform"]
    ema: MovingAverageSettings | None = None
    privacy: PrivacySettings | None = None

    @field_validator("client")
    @classmethod
    def _deadlines_end_rounds(cls, client: ClientSettings) -> ClientSettings:
        if client.within_deadline is not None and not cls.HAS_ROUNDS:
            raise ValueError(
                "within_deadline: a deadline ends the rounds of scheduler synchronous, and this one has none; name "
                "synchronous, or leave it out"
            )
        return client

    @property
    def updates(self) -> int:
        """Client updates that make a server update."""
        raise NotImplementedError

    @property
    def reads_losses(self) -> bool:
        """Whether the scheduler asks for the losses of client updates, so that it cannot be played ahead of them."""
        return False

    def mistakes(self, population: Population, budget: Budget) -> list[str]:
        """What cannot work with this population, or within this budget, and what the promised privacy forbids:
        sentences that begin with the key within the algorithm."""
        if self.privacy is None:
            return []
        return self.privacy.mistakes(
            scheduler=self.scheduler,
            weighting=self.weighting,
            clip=self.client.clip,
            over_selection=getattr(self, "over_selection", None),
            deadline=getattr(self, "deadline", None),
        )

    @property
    def largest_weight(self) -> float:
        """What a client update weighs at most in a server update, where nothing but its weighted sum is used."""
        raise NotImplementedError
