"""When clients are online, and what is known of it beforehand: an experiment's ``availability`` (RELAY: Abdelmoniem et
al. 2021, sections 4.1 and 5.1). A scenario without it has clients who are always online (AllAvail)."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings


class OracleForecast(Settings):
    """The share of the slot that the client will be online, as its schedule has it. ``noise`` is the standard deviation
    of a normal error on that share, which is then held within 0..1."""

    kind: Literal["oracle"]
    noise: float = Field(0.0, ge=0, le=1)


class SeasonalForecast(Settings):
    """What the client's own past says of the slot's hours of the day."""

    kind: Literal["seasonal"]


ForecastSettings = Annotated[OracleForecast | SeasonalForecast, Field(discriminator="kind")]


class _Availability(Settings):
    forecast: ForecastSettings = OracleForecast(kind="oracle", noise=0.0)


class GeneratedAvailability(_Availability):
    """A generated week, which repeats: long charges by night and short plug-ins by day (DynAvail). It is no
    measurement; ``generated`` in availability_sources says what is like the paper's figures in it."""

    source: Literal["generated"]


class BehaviourTrace(_Availability):
    """FedScale's behaviour trace, a pickle of {id: {duration, inactive, active, finish_time, model}}. Each client's own
    time repeats after its ``finish_time``. Where there are no more clients than traces, client i has the i-th trace in
    the order of their ids; where there are more, each client's is drawn."""

    source: Literal["fedscale"]
    path: Path


AvailabilitySettings = Annotated[GeneratedAvailability | BehaviourTrace, Field(discriminator="source")]
