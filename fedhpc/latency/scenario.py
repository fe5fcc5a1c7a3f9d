"""How long a client takes: Hard et al., section 3, ``T = T_communication + C + T_per_example * examples``."""

from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings


class LogNormal(Settings):
    """exp(mu + sigma z), z standard normal; virtual seconds."""

    distribution: Literal["lognormal"]
    mu: float = Field(ge=-100, le=100)
    sigma: float = Field(ge=0, le=20)


class Constant(Settings):
    """Always the same value; virtual seconds."""

    distribution: Literal["constant"]
    value: float = Field(ge=0, le=1e15)


Distribution = Annotated[LogNormal | Constant, Field(discriminator="distribution")]


class StragglerLatency(Settings):
    """The straggler clients' own latency factors; a factor left out is as everybody's."""

    communication: Distribution | None = None
    per_example: Distribution | None = None
    overhead: Distribution | None = None


class Scenario(Settings):
    """One latency scenario: the three factors of section 3.1, each drawn anew at every participation.

    ``communication`` is download plus upload and ``overhead`` the system constant C, both in virtual seconds;
    ``per_example`` is virtual seconds for each example that the client processes.
    """

    communication: Distribution
    per_example: Distribution
    overhead: Distribution
    stragglers: StragglerLatency | None = None
