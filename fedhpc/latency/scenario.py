"""How long a client takes: Hard et al., section 3, ``T = T_communication + C + T_per_example * examples``; FedCompass,
section 5.1, a time for each step; FedCore, sections 3 and 6.1, a constant capability and a deadline for stragglers."""

from typing import Annotated

from pydantic import Field, model_validator

from fedhpc.latency.capability import Capability
from fedhpc.latency.distributions import Duration, bounds
from fedhpc.settings import Settings

Factors = tuple[Duration | None, Duration | None, Duration | None, Duration | None]


Slowdown = Annotated[float, Field(ge=1, le=1e6)]


class _Factors(Settings):
    communication: Duration | None = None
    per_example: Duration | None = None
    overhead: Duration | None = None
    per_step: Duration | None = None


class StragglerLatency(_Factors):
    """The straggler clients' own latency factors; a factor left out is as everybody's."""


class Scenario(_Factors):
    """One latency scenario: the factors of a client's time, each drawn anew at every participation.

    ``communication`` is download plus upload and ``overhead`` the system constant C, both in virtual seconds;
    ``per_example`` is virtual seconds for each example that the client processes, ``per_step`` for each mini-batch.
    A factor left out takes no time. With a ``capability``, examples that a client processes in a virtual second, they
    take the client so much longer. ``speed_change`` is the probability with which, at each participation after its
    first, a client has the parameters that are its own drawn anew (FedCompass, appendix G.2).

    ``straggler_percent``, s, sets a round's deadline (FedCore, section 6.1): the (100-s)th percentile, over all
    clients, of the virtual seconds that their full local work takes by their capability alone.

    Under a clock, silos take the time that they take, and ``slowdown`` is all that there is: how many times as long a
    step takes as it would, one number for all clients or one for each.
    """

    stragglers: StragglerLatency | None = None
    capability: Capability | None = None
    straggler_percent: float | None = Field(None, gt=0, lt=100)
    speed_change: float = Field(0.0, ge=0, le=1)
    slowdown: Slowdown | Annotated[list[Slowdown], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _something_takes_time(self) -> "Scenario":
        if self.slowdown is None and self.capability is None and not any(self.factors(straggler=False)):
            raise ValueError("give at least one of communication, overhead, per_example and per_step, or a capability")
        return self

    @model_validator(mode="after")
    def _a_deadline_is_known_in_advance(self) -> "Scenario":
        if self.straggler_percent is not None and self.capability is None:
            raise ValueError(
                "straggler_percent: the deadline is a percentile of what clients' work takes by their capability; give "
                "the scenario a capability"
            )
        return self

    @model_validator(mode="after")
    def _somebody_has_a_speed_to_change(self) -> "Scenario":
        factors = [*self.factors(straggler=False), *self.factors(straggler=True)]
        if self.speed_change and not any(
            isinstance(parameter, Settings) for factor in factors if factor is not None for _, parameter in factor
        ):
            raise ValueError(
                "speed_change: no client has parameters of its own that could change; make a parameter a distribution, "
                "as in per_step: {distribution: normal, mean: {distribution: exponential, mean: 0.15}, variation: "
                "0.05}, or leave speed_change out"
            )
        return self

    @property
    def latencies(self) -> list[str]:
        """The keys that are given and speak of virtual seconds."""
        return [name for name, value in self if name != "slowdown" and value]

    def slowdown_of(self, client: int) -> float:
        """How many times as long this client's steps take."""
        if isinstance(self.slowdown, list):
            return self.slowdown[client]
        return 1.0 if self.slowdown is None else self.slowdown

    def factors(self, *, straggler: bool) -> Factors:
        """(communication, overhead, per_example, per_step) of a straggler client, or of any other."""
        own = self.stragglers if straggler and self.stragglers is not None else self
        return (
            own.communication or self.communication,
            own.overhead or self.overhead,
            own.per_example or self.per_example,
            own.per_step or self.per_step,
        )

    @property
    def work_takes_time(self) -> bool:
        """Whether every client's time grows with its work."""
        return self.capability is not None or all(
            any(factor is not None and bounds(factor)[1] > 0 for factor in self.factors(straggler=straggler)[2:])
            for straggler in (False, True)
        )
