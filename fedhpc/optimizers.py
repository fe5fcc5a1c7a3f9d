"""The optimisers that an experiment can name, for clients and for the server; torch's own, with torch's meaning."""

from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings


class SGD(Settings):
    """Stochastic gradient descent, with momentum and weight decay if asked."""

    name: Literal["sgd"]
    rate: float = Field(gt=0, le=1e30)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0, le=1e30)


class Adam(Settings):
    """Adam (Kingma and Ba 2015)."""

    name: Literal["adam"]
    rate: float = Field(gt=0, le=1e30)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    epsilon: float = Field(1e-8, gt=0, le=1e30)
    weight_decay: float = Field(0.0, ge=0, le=1e30)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    name: Literal["adamw"]  # type: ignore[assignment]
    weight_decay: float = Field(0.01, ge=0, le=1e30)


Optimizer = Annotated[SGD | Adam | AdamW, Field(discriminator="name")]
