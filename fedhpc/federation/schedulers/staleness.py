"""How much a stale client update weighs (Xie et al. 2019, section 5.2).

The staleness tau is the number of server updates between the client's download and its upload.
"""

from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings


class ConstantStaleness(Settings):
    """s = 1."""

    kind: Literal["constant"]

    def weight(self, staleness: int) -> float:
        return 1.0


class PolynomialStaleness(Settings):
    """s = (tau + 1)^-a; ``exponent`` is a."""

    kind: Literal["polynomial"]
    exponent: float = Field(0.5, ge=0, le=100)

    def weight(self, staleness: int) -> float:
        return float((staleness + 1) ** -self.exponent)


class HingeStaleness(Settings):
    """s = 1 up to tau = b, then 1 / (a (tau - b) + 1); ``slope`` is a and ``free`` is b."""

    kind: Literal["hinge"]
    slope: float = Field(ge=0, le=1e6)
    free: float = Field(ge=0, le=1e12)

    def weight(self, staleness: int) -> float:
        return 1.0 if staleness <= self.free else 1 / (self.slope * (staleness - self.free) + 1)


Staleness = Annotated[ConstantStaleness | PolynomialStaleness | HingeStaleness, Field(discriminator="kind")]
