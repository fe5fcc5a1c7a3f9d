"""What an algorithm promises its clients: user-level differential privacy of the global models.

``dp_ftrl`` adds tree-correlated noise and counts every client at most once a tree (Kairouz et al. 2021), so that it
needs no random selection and suits asynchronous algorithms (FedBuff, section 3). ``dp_sgd`` adds fresh noise to every
server update and counts on Poisson sampling (McMahan et al. 2018).
"""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from fedhpc.settings import Settings


class PrivacySettings(Settings):
    """The mechanism, and how much noise: ``noise_multiplier``, or the ``epsilon`` that the whole run may spend.

    The noise's standard deviation on the weighted sum of clipped updates is noise_multiplier * ``client.clip`` * the
    largest weight that an update can have.
    """

    mechanism: Literal["dp_ftrl", "dp_sgd"]
    delta: float = Field(gt=0, lt=1)
    noise_multiplier: float | None = Field(None, gt=0, le=1e6)
    epsilon: float | None = Field(None, gt=0, le=1e6, validate_default=True)

    @field_validator("epsilon")
    @classmethod
    def _one_measure_of_noise(cls, epsilon: float | None, others: ValidationInfo) -> float | None:
        # Where noise_multiplier itself is wrong it is not among the others, and that mistake is told already.
        if "noise_multiplier" in others.data and (others.data["noise_multiplier"] is None) == (epsilon is None):
            raise ValueError("epsilon: give either epsilon or noise_multiplier, one of them and not both")
        return epsilon

    def mistakes(
        self, *, scheduler: str, weighting: str, clip: float | None, over_selection: int | None, deadline: float | None
    ) -> list[str]:
        """Which of an algorithm's settings the accountant's assumptions forbid: sentences that begin with the key
        within the algorithm. ``over_selection`` and ``deadline`` are None where the scheduler knows none."""
        found = []
        if clip is None:
            found.append(
                "client.clip: missing; what one client can change is bounded by the norm that its update is clipped "
                "to; give client.clip or remove privacy"
            )
        if weighting != "uniform":
            found.append(
                f"weighting: {weighting} makes a client's weight depend on its data and on the others' in the same "
                "server update, so that nothing bounds it; give weighting: uniform"
            )
        return found + (
            self._broken_tree(scheduler, deadline)
            if self.mechanism == "dp_ftrl"
            else self._broken_sampling(scheduler, over_selection, deadline)
        )

    @staticmethod
    def _broken_tree(scheduler: str, deadline: float | None) -> list[str]:
        found = []
        if scheduler not in ("synchronous", "buffered"):
            found.append(
                f"scheduler: {scheduler} is not known to use every client update in one weighted sum only, each with a "
                "bounded weight, which dp_ftrl counts on; give scheduler: buffered or synchronous, or remove privacy"
            )
        if deadline is not None:
            found.append(
                "deadline: a round that it closes divides by the few updates that came, so that one of them weighs "
                "more than dp_ftrl's noise is made for; remove deadline"
            )
        return found

    @staticmethod
    def _broken_sampling(scheduler: str, over_selection: int | None, deadline: float | None) -> list[str]:
        found = []
        if scheduler != "synchronous":
            found.append(
                f"scheduler: {scheduler} does not draw every client anew for every server update, each by itself with "
                "a known probability, which dp_sgd counts on; give scheduler: synchronous, or privacy.mechanism: "
                "dp_ftrl"
            )
        if over_selection is not None:
            found.append(
                "over_selection: who is fast is aggregated more often than chance has it, and dp_sgd counts on chance "
                "alone (Poisson sampling); remove over_selection"
            )
        if deadline is not None:
            found.append(
                "deadline: who is late is left out, so that taking part is no chance of a known probability any "
                "more, which dp_sgd counts on (Poisson sampling); remove deadline"
            )
        return found
