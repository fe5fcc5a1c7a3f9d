"""What a latency factor is drawn from, and what its parameters may be drawn from.

A parameter is a number, or a distribution (of numbers: no deeper) from which each client draws its own once: Hard et
al., section 3.2, "each client was assigned a particular mu and sigma"; FedCompass, section 5.1, a speed for each client
and a round's speed around it.

Durations are never negative. A normal's draw of 0 or less is drawn again, which moves its mean up a little (by less
than a thousandth at a standard deviation of 0.3 times the mean, by 29 % at one of 1.0); only ``mu`` may be any number,
and a normal there is drawn as it is.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from fedhpc.settings import Settings

MOST_MU, MOST_SIGMA = 100.0, 20.0
_MOST = 1e15


def _kind(value: Any) -> str:
    return "<distribution>" if isinstance(value, dict | Settings) else "<number>"


def _takes_numbers(distribution: "Distribution") -> "Distribution":
    for name, parameter in distribution:
        if isinstance(parameter, Settings):
            raise ValueError(f"{name}: a distribution here is one too deep; give a number")
    return distribution


def _not_negative(distribution: "Distribution") -> "Distribution":
    """Refuses what has negative values where there are none."""
    match distribution:
        case Uniform(low=float(low)) if low < 0:
            raise ValueError(f"low: {low:g} is below 0, as nothing that is drawn here may be; raise it")
        case Uniform(high=high) if isinstance(high, Settings):
            _check("high", _not_negative, high)
        case Normal(mean=float(mean)) if mean <= 0:
            raise ValueError(f"mean: {mean:g} is not above 0, as all that is drawn here must be; raise it")
        case Normal(mean=mean) if isinstance(mean, Settings):
            _check("mean", _positive, mean)
    return distribution


def _positive(distribution: "Distribution") -> "Distribution":
    """Refuses what has negative values, or none but 0, where all are above 0. (An accidental 0 is drawn again.)"""
    _not_negative(distribution)
    if bounds(distribution)[1] == 0:
        key = "high" if isinstance(distribution, Uniform) else "value"
        raise ValueError(f"{key}: 0 is not above 0, as what is drawn here must be; raise it")
    return distribution


def _check(key: str, check: "Callable[[Distribution], Distribution]", parameter: "Distribution") -> None:
    try:
        check(parameter)
    except ValueError as error:
        raise ValueError(f"{key}.{error}") from None


_Drawn = Annotated["Distribution", AfterValidator(_takes_numbers)]
_EITHER = Discriminator(_kind)
_Any = Annotated[
    Annotated[float, Field(ge=-_MOST, le=_MOST), Tag("<number>")] | Annotated[_Drawn, Tag("<distribution>")], _EITHER
]
_NotNegative = Annotated[
    Annotated[float, Field(ge=0, le=_MOST), Tag("<number>")]
    | Annotated[_Drawn, AfterValidator(_not_negative), Tag("<distribution>")],
    _EITHER,
]
_Positive = Annotated[
    Annotated[float, Field(gt=0, le=_MOST), Tag("<number>")]
    | Annotated[_Drawn, AfterValidator(_positive), Tag("<distribution>")],
    _EITHER,
]
_Mu = Annotated[
    Annotated[float, Field(ge=-MOST_MU, le=MOST_MU), Tag("<number>")] | Annotated[_Drawn, Tag("<distribution>")],
    _EITHER,
]
_Sigma = Annotated[
    Annotated[float, Field(ge=0, le=MOST_SIGMA), Tag("<number>")]
    | Annotated[_Drawn, AfterValidator(_not_negative), Tag("<distribution>")],
    _EITHER,
]


class LogNormal(Settings):
    """exp(mu + sigma z), z standard normal. A client's own mu or sigma is held within what a number there may be."""

    distribution: Literal["lognormal"]
    mu: _Mu
    sigma: _Sigma


class Constant(Settings):
    """Always the same value."""

    distribution: Literal["constant"]
    value: _NotNegative


class HalfNormal(Settings):
    """mean sqrt(pi/2) |z|, z standard normal: FedBuff, section 6."""

    distribution: Literal["half_normal"]
    mean: _Positive


class Uniform(Settings):
    """low + (high - low) u, u uniform on [0, 1)."""

    distribution: Literal["uniform"]
    low: _Any
    high: _Any

    @model_validator(mode="after")
    def _low_is_below_high(self) -> "Uniform":
        most, least = bounds(self.low)[1], bounds(self.high)[0]
        if most > least:
            raise ValueError(f"low: it may be {most:g} where high may be only {least:g}; lower it")
        return self


class Exponential(Settings):
    """mean e, e standard exponential."""

    distribution: Literal["exponential"]
    mean: _Positive


class Normal(Settings):
    """mean + std z, z standard normal; ``variation`` instead of ``std`` is std as a share of the mean."""

    distribution: Literal["normal"]
    mean: _Any
    std: _NotNegative | None = None
    variation: _NotNegative | None = None

    @model_validator(mode="after")
    def _one_measure_of_spread(self) -> "Normal":
        if (self.std is None) == (self.variation is None):
            raise ValueError("std: give either std or variation, one of them and not both")
        return self


Distribution = Annotated[
    LogNormal | Constant | HalfNormal | Uniform | Exponential | Normal, Field(discriminator="distribution")
]
for _distribution in (LogNormal, Constant, HalfNormal, Uniform, Exponential, Normal):
    _distribution.model_rebuild()

Duration = Annotated[Distribution, AfterValidator(_not_negative)]
"""A distribution of virtual seconds: none is negative."""

OnceAClient = Annotated[Distribution, AfterValidator(_takes_numbers), AfterValidator(_positive)]
"""A distribution from which each client draws a number above 0, once."""


def bounds(parameter: float | Distribution) -> tuple[float, float]:
    """The greatest lower and the least upper bound of what is drawn, where nothing negative is."""
    match parameter:
        case Constant(value=value):
            return bounds(value)
        case Uniform(low=low, high=high):
            return bounds(low)[0], bounds(high)[1]
        case LogNormal() | HalfNormal() | Exponential() | Normal():
            return 0.0, math.inf
        case number:
            return number, number
