"""The optimisers that an experiment can name, for clients and for the server; torch's own have torch's meaning."""

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


class Adagrad(Settings):
    """FedAdagrad's step (Duchi et al. 2011; Reddi et al. 2021, Algorithm 2, with beta1 0); ``epsilon`` is their tau.

    ``initial_accumulator`` is what their v starts from: tau^2, the least that they allow, where it is not given.
    """

    name: Literal["adagrad"]
    rate: float = Field(gt=0, le=1e30)
    epsilon: float = Field(1e-3, gt=0, le=1e15)
    initial_accumulator: float | None = Field(None, ge=0, le=1e30)

    @property
    def first_square(self) -> float:
        """v before the first step."""
        return self.epsilon**2 if self.initial_accumulator is None else self.initial_accumulator


class Yogi(Adagrad):
    """FedYogi's step (Zaheer et al. 2018; Reddi et al. 2021, Algorithm 2: without Adam's bias correction)."""

    name: Literal["yogi"]  # type: ignore[assignment]
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.99)


Optimizer = Annotated[SGD | Adam | AdamW | Adagrad | Yogi, Field(discriminator="name")]
