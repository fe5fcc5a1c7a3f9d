"""How long a client takes: Hard et al., section 3, ``T = T_communication + C + T_per_example * examples``; FedCompass,
section 5.1, a time for each step; FedCore, sections 3 and 6.1, a constant capability and a deadline for stragglers;
RELAY, section 5.1, the devices that clients have, and when they are online."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from fedhpc.latency.availability_settings import AvailabilitySettings, BehaviourTrace
from fedhpc.latency.capability import Capability
from fedhpc.latency.device_settings import CapacityFile, Devices, ProfilesFile
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

    ``devices`` add what clients' devices and links take (RELAY, section 5.1), which no speed change moves and no
    straggler_percent counts; ``availability`` says when clients are online, which they always are without it.

    Under a clock, silos take the time that they take, and ``slowdown`` is all that there is: how many times as long a
    step takes as it would, one number for all clients or one for each.
    """

    stragglers: StragglerLatency | None = None
    capability: Capability | None = None
    straggler_percent: float | None = Field(None, gt=0, lt=100)
    speed_change: float = Field(0.0, ge=0, le=1)
    slowdown: Slowdown | Annotated[list[Slowdown], Field(min_length=1)] | None = None
    devices: Devices | None = None
    availability: AvailabilitySettings | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # So that results from before these keys were there are still those of the same settings (law 5).
        content: dict[str, Any] = written(self)
        for key in ("devices", "availability"):
            if key in content and content[key] is None:
                del content[key]
        return content

    @model_validator(mode="after")
    def _something_takes_time(self) -> "Scenario":
        takes = [*self.factors(straggler=False), self.slowdown, self.capability, self.devices]
        if all(each is None for each in takes):
            raise ValueError(
                "give at least one of communication, overhead, per_example and per_step, or a capability, or devices"
            )
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

    @property
    def files(self) -> dict[str, Path]:
        """The files that it names, by the keys of their paths within it."""
        parts: list[tuple[str, object]] = [("devices", self.devices), ("availability", self.availability)]
        return {
            f"{key}.path": part.path
            for key, part in parts
            if isinstance(part, ProfilesFile | CapacityFile | BehaviourTrace)
        }

    def with_files(self, found: Mapping[str, Path]) -> "Scenario":
        """The same with these paths, by their keys, in the place of its own."""
        moved = {}
        for place, path in found.items():
            key = place.partition(".")[0]
            moved[key] = getattr(self, key).model_copy(update={"path": path})
        return self.model_copy(update=moved)

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
        return (
            self.capability is not None
            or self.devices is not None
            or all(
                any(factor is not None and bounds(factor)[1] > 0 for factor in self.factors(straggler=straggler)[2:])
                for straggler in (False, True)
            )
        )
