"""The models an experiment can name."""

from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings


class Logistic(Settings):
    """Multinomial logistic regression on the flattened features."""

    name: Literal["logistic"]


class MLP(Settings):
    """Fully connected layers with ReLU between them, on the flattened features."""

    name: Literal["mlp"]
    hidden: list[Annotated[int, Field(ge=1, le=65_536)]] = Field([64], min_length=1)


Model = Annotated[Logistic | MLP, Field(discriminator="name")]
